import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import { errors } from "../../contract/error.ts";
import { slowReaderTimeoutMs } from "../../domain/limits.ts";

const mib = 1024 * 1024;

/** Smaller answers are not counted: most fit into the buffers of the system. */
const smallBytesMax = 65_536;

/** Bytes of the large answers of one workspace that its clients have not read yet, and of all. Four of the largest pages. */
const ownerBytesMax = 64 * mib;
const totalBytesMax = 256 * mib;

const retryAfterS = 1;

/**
 * Memory of the answers that clients have not read yet. A client that asks for pages and does not read them would otherwise leave each
 * in memory for as long as its connection is open. One that reads slowly has all the time it needs, one that reads nothing for
 * `slowReaderTimeoutMs` is disconnected.
 */
export class UnreadAnswers {
  readonly #owners = new Map<string, number>();
  #total = 0;

  /** Bytes in use. */
  get total(): number {
    return this.#total;
  }

  /** @throws ApiError 429 when the clients of this owner leave too much unread. */
  admit(owner: string | null): void {
    if (owner !== null && (this.#owners.get(owner) ?? 0) >= ownerBytesMax) throw errors.tooManyRequests(retryAfterS);
  }

  /**
   * Counts an answer until it was read, or its connection has ended.
   * @param options.owner null: it is not counted
   * @param options.isRefusable false: the request has changed something, so that its client must get the answer.
   * @throws ApiError 429 when the clients of this owner leave too much unread, 503 when those of all do.
   */
  hold(
    { owner, bytes, isRefusable = true }: { owner: string | null; bytes: number; isRefusable?: boolean },
    response: ServerResponse,
  ): void {
    if (bytes <= smallBytesMax) return;
    if (owner !== null) {
      if (isRefusable) this.#check(owner, bytes);
      this.#add(owner, bytes);
      let isHeld = true;
      const give = () => {
        if (isHeld) this.#add(owner, -bytes);
        isHeld = false;
      };
      response.once("finish", give).once("close", give);
    }
    closeWhenIdle(response);
  }

  #check(owner: string, bytes: number): void {
    const held = this.#owners.get(owner) ?? 0;
    if (held > 0 && held + bytes > ownerBytesMax) throw errors.tooManyRequests(retryAfterS);
    if (this.#total > 0 && this.#total + bytes > totalBytesMax) {
      throw errors.unavailable(
        "Clients of this server read their answers too slowly. Try again in a moment.",
        retryAfterS,
      );
    }
  }

  #add(owner: string, bytes: number): void {
    const held = (this.#owners.get(owner) ?? 0) + bytes;
    if (held > 0) this.#owners.set(owner, held);
    else this.#owners.delete(owner);
    this.#total += bytes;
  }
}

/** Closes the connection of a client that takes nothing for too long. Node watches the progress of a large answer itself. */
function closeWhenIdle(response: ServerResponse): void {
  if (response.socket instanceof Socket) response.setTimeout(slowReaderTimeoutMs, () => response.destroy());
}
