import type { IncomingMessage } from "node:http";

/**
 * Chunks in one read of 64 KiB above which a stream has to wait for its next turn. They have less than 60 bytes each: an event with
 * one token is longer.
 */
const chunksMax = 1_000;

/**
 * Pause between two streams that continue. Taking 64 KiB of tiny chunks occupies the event loop for as long, and requests of others need
 * several turns.
 */
const pauseMs = 10;

/** How long after such a stream the requests to the same server wait for a turn too. Each of their answers could be one. */
const memoryMs = 10_000;

/** Begin or continue one stream each, by the server that they belong to. They return false if their stream has ended. */
const waiting = new Map<object, (() => boolean)[]>();

let isPlanned = false;

function takeTurn(owner: object, next: () => boolean): void {
  const others = waiting.get(owner);
  planTurn();
  if (others === undefined) waiting.set(owner, [next]);
  else others.push(next);
}

function planTurn(): void {
  if (!isPlanned) setTimeout(continueOne, pauseMs);
  isPlanned = true;
}

/** Continues one stream. The servers take turns, so that one with many streams does not delay those of another. */
function continueOne(): void {
  isPlanned = false;
  for (const [owner, list] of waiting) {
    const next = list.shift();
    waiting.delete(owner);
    if (list.length > 0) waiting.set(owner, list);
    if (next?.() === true) break;
  }
  if (waiting.size > 0) planTurn();
}

/** Whether a server has sent too many chunks, so that its next answers have to wait. */
export class ChunkStorms {
  #lastAtMs = Number.NEGATIVE_INFINITY;

  seen(): void {
    this.#lastAtMs = performance.now();
  }

  /** Calls `begin` now, or in a turn of its own. It returns false if there is nothing to do any more. */
  take(begin: () => boolean): void {
    if (performance.now() - this.#lastAtMs < memoryMs) takeTurn(this, begin);
    else begin();
  }
}

/**
 * Calls `use` once for all chunks of a body that arrived in one turn of the event loop, still in that turn: a sender chooses the
 * size of its chunks, and forwarding each takes longer than receiving it. Of the streams that send thousands in one turn, only one
 * continues at a time, so that others wait for one of them and not for all.
 * @param server the agent server that sends the body, or receives it
 */
export function onChunks(
  stream: IncomingMessage,
  use: (bytes: Buffer) => void,
  server: { storms: ChunkStorms; isSender: boolean },
): void {
  let pending: Buffer[] = [];
  const flush = () => {
    if (pending.length === 0) return;
    const [first] = pending;
    const bytes = pending.length === 1 && first !== undefined ? first : Buffer.concat(pending);
    const isStorm = pending.length > chunksMax;
    pending = [];
    use(bytes);
    if (isStorm && server.isSender) server.storms.seen();
    if (!isStorm || stream.isPaused()) return;
    pauseBody(stream);
    takeTurn(server.storms, () => {
      resumeBody(stream);
      return !stream.destroyed;
    });
  };
  stream.on("data", (chunk: Buffer) => {
    if (pending.push(chunk) === 1) process.nextTick(flush);
  });
  stream.on("end", flush);
}

/**
 * Pauses a body and its connection. A body that alone is paused still takes what its connection reads next, in chunks that the sender
 * chooses: 64 KiB as chunks of one byte take 2 MB.
 */
export function pauseBody(body: IncomingMessage): void {
  body.pause();
  // In a tick of its own, because the body has planned to continue its connection. A later one would miss further reads of this turn.
  process.nextTick(() => {
    if (body.isPaused() && !body.complete) body.socket.pause();
  });
}

export function resumeBody(body: IncomingMessage): void {
  body.resume();
  // Continues the connection, unless it is paused for another reason.
  if (!body.destroyed) body._read(0);
}
