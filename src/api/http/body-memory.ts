import { errors } from "../../contract/error.ts";

const mib = 1_024 * 1_024;

/** Who sends a body: a key, or an address that sent no key. */
export interface BodyOwner {
  name: string;
  isAnonymous: boolean;
}

export interface BodyMemoryLimits {
  /** Bytes of all bodies together. */
  totalMax: number;
  /** Bytes of all bodies without a key. Senders without a key must not use what senders with one need. */
  anonymousMax: number;
  /** Bytes of one key. */
  keyMax: number;
  /** Bytes of one address without a key. */
  addressMax: number;
}

/** A parsed body takes a few times its size. Each maximum holds at least two of the largest bodies of its kind. */
const defaultBodyMemory: BodyMemoryLimits = {
  totalMax: 64 * mib,
  anonymousMax: 8 * mib,
  keyMax: 16 * mib,
  addressMax: 2 * mib,
};

/** Memory of the request bodies that are arriving or being worked on. */
export class BodyMemory {
  readonly #limits: BodyMemoryLimits;
  readonly #owners = new Map<string, number>();
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
   * @throws ApiError 429 when this owner's other bodies use its share, 503 when the bodies of all use everything.
   */
  take({ name, isAnonymous }: BodyOwner, bytes: number): void {
    const { totalMax, anonymousMax, keyMax, addressMax } = this.#limits;
    const owned = (this.#owners.get(name) ?? 0) + bytes;
    if (owned > (isAnonymous ? addressMax : keyMax)) throw errors.tooManyRequests(retryAfterS);
    if (this.#total + bytes > totalMax || (isAnonymous && this.#anonymous + bytes > anonymousMax)) {
      throw errors.unavailable("The server is receiving too many request bodies. Try again in a moment.", retryAfterS);
    }
    this.#owners.set(name, owned);
    this.#total += bytes;
    if (isAnonymous) this.#anonymous += bytes;
  }

  give({ name, isAnonymous }: BodyOwner, bytes: number): void {
    const owned = (this.#owners.get(name) ?? 0) - bytes;
    if (owned > 0) this.#owners.set(name, owned);
    else this.#owners.delete(name);
    this.#total -= bytes;
    if (isAnonymous) this.#anonymous -= bytes;
  }
}

const retryAfterS = 1;
