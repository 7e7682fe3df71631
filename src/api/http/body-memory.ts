import { BytePace } from "../../base/byte-pace.ts";
import { errors } from "../../contract/error.ts";

const mib = 1_024 * 1_024;

/** Who sends a body: a key, or an address that sent no key. */
export interface BodySender {
  name: string;
  isAnonymous: boolean;
  /** Whose body it is: a workspace, or an organization. null: an anonymous sender, or a listener of the server. */
  ownerId: string | null;
}

export interface BodyMemoryLimits {
  /** Bytes of all bodies together. */
  totalMax: number;
  /** Bytes of all bodies without a key. Senders without a key must not use what senders with one need. */
  anonymousMax: number;
  /** Fraction of what the others leave that the keys of one workspace may use together. */
  workspaceShare: number;
  /** Bytes of one key. */
  keyMax: number;
  /** Bytes of one address without a key. */
  addressMax: number;
}

/** A parsed body takes a few times its size. Each maximum holds at least two of the largest bodies of its kind. */
const defaultBodyMemory: BodyMemoryLimits = {
  totalMax: 64 * mib,
  anonymousMax: 8 * mib,
  workspaceShare: 0.5,
  keyMax: 16 * mib,
  addressMax: 2 * mib,
};

/** Memory of the request bodies that are arriving or being worked on, and how fast those of one workspace may arrive. */
export class BodyMemory {
  readonly #limits: BodyMemoryLimits;
  readonly #senders = new Map<string, number>();
  readonly #owned = new Map<string, number>();
  readonly #pace = new BytePace({ bytesPerS: 16 * mib, burstBytes: 16 * mib });
  #total = 0;
  #anonymous = 0;

  constructor(limits: BodyMemoryLimits = defaultBodyMemory) {
    this.#limits = limits;
  }

  /** Bytes in use. */
  get total(): number {
    return this.#total;
  }

  /**
   * Takes memory for a body.
   * @throws ApiError 429 when this owner's other bodies, or those of its workspace, use their share, 503 when the bodies of all use
   *   everything.
   */
  take(sender: BodySender, bytes: number): void {
    const { name, isAnonymous, ownerId } = sender;
    const { totalMax, anonymousMax, keyMax, addressMax } = this.#limits;
    const sent = (this.#senders.get(name) ?? 0) + bytes;
    if (sent > (isAnonymous ? addressMax : keyMax)) throw errors.tooManyRequests(retryAfterS);
    if (this.#total + bytes > totalMax || (isAnonymous && this.#anonymous + bytes > anonymousMax)) {
      throw errors.unavailable("The server is receiving too many request bodies. Try again in a moment.", retryAfterS);
    }
    if (ownerId !== null && bytes > this.#leftFor(ownerId)) throw errors.tooManyRequests(retryAfterS);
    this.#add(sender, bytes);
  }

  /** Counts bytes that arrived. @returns for how many milliseconds this sender must wait before it sends more */
  pauseMs({ ownerId }: BodySender, bytes: number): number {
    if (ownerId === null) return 0;
    this.#pace.forgetIdle();
    return this.#pace.count(ownerId, bytes);
  }

  give(sender: BodySender, bytes: number): void {
    this.#add(sender, -bytes);
  }

  /** Returns how much more the keys of an owner may use together. */
  #leftFor(ownerId: string): number {
    const used = this.#owned.get(ownerId) ?? 0;
    return (this.#limits.totalMax - (this.#total - used)) * this.#limits.workspaceShare - used;
  }

  #add({ name, isAnonymous, ownerId }: BodySender, bytes: number): void {
    addTo(this.#senders, name, bytes);
    if (ownerId !== null) addTo(this.#owned, ownerId, bytes);
    this.#total += bytes;
    if (isAnonymous) this.#anonymous += bytes;
  }
}

function addTo(sums: Map<string, number>, name: string, bytes: number): void {
  const sum = (sums.get(name) ?? 0) + bytes;
  if (sum > 0) sums.set(name, sum);
  else sums.delete(name);
}

const retryAfterS = 1;
