import type { FastifyRequest } from "fastify";
import type { Keyring } from "../../auth/keyring.ts";
import type { Credentials } from "../../auth/principal.ts";
import { ApiError, errors } from "../../contract/error.ts";
import { credentialsOf } from "./authenticate.ts";

/** How much one key may ask of this server. */
export interface RateLimit {
  /** Requests a second in the long run; 0: no limit. */
  perS: number;
  /** Requests at once, after a rest. */
  burst: number;
}

/**
 * A token bucket for each name, held as one number: the moment at which the bucket is full again. Taking a token moves it
 * on by the time in which one token comes; it may lie as far ahead as it takes to fill an empty bucket. So a name at
 * rest needs no entry, and taking one costs a look-up and a write (about 0.1 us).
 */
export class RateLimiter {
  readonly #tokenMs: number;
  readonly #burstMs: number;
  readonly #namesMax: number;
  readonly #fullAtMs = new Map<string, number>();

  /** @param namesMax Names remembered at once; beyond it those are forgotten that began first. */
  constructor({ perS, burst }: RateLimit, namesMax = 10_000) {
    this.#tokenMs = perS === 0 ? 0 : 1_000 / perS;
    this.#burstMs = this.#tokenMs * burst;
    this.#namesMax = namesMax;
  }

  /** Takes a token. @returns 0, or whole seconds until there is one: then none was taken. */
  take(name: string): number {
    const nowMs = performance.now();
    const fullAtMs = Math.max(this.#fullAtMs.get(name) ?? 0, nowMs) + this.#tokenMs;
    const excessMs = fullAtMs - nowMs - this.#burstMs;
    if (excessMs > 0) return Math.ceil(excessMs / 1_000);
    this.#fullAtMs.set(name, fullAtMs);
    if (this.#fullAtMs.size > this.#namesMax) this.#forget(nowMs);
    return 0;
  }

  /** What `take` would return, without taking. */
  waitS(name: string): number {
    const fullAtMs = this.#fullAtMs.get(name);
    if (fullAtMs === undefined) return 0;
    return Math.max(0, Math.ceil((fullAtMs + this.#tokenMs - performance.now() - this.#burstMs) / 1_000));
  }

  /** Those whose bucket is full again; if there are none, the first of all. */
  #forget(nowMs: number): void {
    for (const [name, fullAtMs] of this.#fullAtMs) if (fullAtMs <= nowMs) this.#fullAtMs.delete(name);
    for (const name of this.#fullAtMs.keys()) {
      if (this.#fullAtMs.size <= this.#namesMax) return;
      this.#fullAtMs.delete(name);
    }
  }
}

/** Wrong keys from one address: a program with an old key asks for it for long, a guesser gets nowhere at this rate. */
const wrongKeys: RateLimit = { perS: 10, burst: 200 };

/** Sign-ins that people of one address begin; each is a row for ten minutes. A whole company may have one address. */
const signIns: RateLimit = { perS: 10, burst: 200 };

/** The limits of one API; all of them are off when an operator sets the rate to 0. */
export class RequestLimits {
  readonly #byKey: RateLimiter | undefined;
  readonly #byAddress: RateLimiter | undefined;
  readonly #signIns: RateLimiter | undefined;
  readonly #keyring: Pick<Keyring, "isFamiliar">;

  constructor(limit: RateLimit, keyring: Pick<Keyring, "isFamiliar">) {
    this.#byKey = limit.perS === 0 ? undefined : new RateLimiter(limit);
    this.#byAddress = limit.perS === 0 ? undefined : new RateLimiter(wrongKeys);
    this.#signIns = limit.perS === 0 ? undefined : new RateLimiter(signIns);
    this.#keyring = keyring;
  }

  /** @throws ApiError 429 when this key has asked for too much. */
  count(keyId: string): void {
    const waitS = this.#byKey?.take(keyId) ?? 0;
    if (waitS > 0) throw errors.tooManyRequests(waitS);
  }

  /** @throws ApiError 429 when too many sign-ins were begun from this address. */
  countSignIn(request: FastifyRequest): void {
    const waitS = this.#signIns?.take(networkOf(request.socket.remoteAddress ?? "")) ?? 0;
    if (waitS > 0) throw errors.tooManyRequests(waitS);
  }

  /**
   * Admits a request by its key or session, unless many wrong ones came from its address. A key that was in use here is let
   * through all the same: behind a proxy all clients have one address.
   * @throws ApiError 429, and what `find` throws.
   */
  async admit<P>(
    request: FastifyRequest,
    find: (credentials: Credentials) => Promise<P>,
    credentials = credentialsOf(request.headers),
  ): Promise<P> {
    const limiter = this.#byAddress;
    const secret = credentials.key ?? credentials.serviceKey ?? credentials.session;
    if (limiter === undefined || secret === undefined) return find(credentials);
    const address = networkOf(request.socket.remoteAddress ?? "");
    const waitS = limiter.waitS(address);
    if (waitS > 0 && !this.#keyring.isFamiliar(secret)) throw errors.tooManyRequests(waitS);
    try {
      return await find(credentials);
    } catch (error) {
      if (error instanceof ApiError && error.code === "invalidToken") limiter.take(address);
      throw error;
    }
  }
}

/** An address; of IPv6 the first 64 bits, of which whoever has one has all. */
function networkOf(address: string): string {
  const isMapped = /^::ffff:\d+\./i.test(address);
  if (!address.includes(":") || isMapped) return address;
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === "" ? 0 : tail.split(":").length);
  return [...groups, ...Array<string>(missing).fill("0")].slice(0, 4).join(":");
}
