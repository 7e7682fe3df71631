import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyRequest } from "fastify";
import type { Credentials } from "../../auth/principal.ts";
import { networkOf } from "../../base/network.ts";
import { type RateLimit, RateLimiter } from "../../base/rate-limiter.ts";
import type { TrustedProxies } from "../../base/trusted-proxies.ts";
import { ApiError, errors } from "../../contract/error.ts";
import { credentialsOf } from "./authenticate.ts";

/**
 * Limit of wrong keys per address: a program with an old key keeps trying for long, and guessing is hopeless at this
 * rate.
 */
const wrongKeys: RateLimit = { perS: 10, burst: 200 };

/**
 * Limit of sign-ins started per address. Each one stores a row for ten minutes. A whole company may share one address.
 */
const signIns: RateLimit = { perS: 10, burst: 200 };

/** Limit of command lines that start to sign in, per address. Each one stores a row for ten minutes. */
const deviceLogins: RateLimit = { perS: 0.2, burst: 20 };

/** Limit of polls of command lines per address, which a whole company may share. Each command line polls every two seconds. */
const devicePolls: RateLimit = { perS: 20, burst: 200 };

/** Limit of wrong codes of command lines per caller. A person mistypes a few. */
const wrongUserCodes: RateLimit = { perS: 1 / 30, burst: 10 };

/**
 * Limit of refused bodies per key, or per address and operation without a key: each costs more than any other refusal. A
 * client that sends what the server refuses has a bug, and needs no more.
 */
const refusedBodies: RateLimit = { perS: 5, burst: 100 };

/** A workspace with many keys may send as much as this many of them. */
const keysOfWorkspace = 2;

/**
 * A request whose token becomes available within this time waits for it, so a client that sends without a pause gets its answers
 * at its rate. If the server refused it at once, it would retry in bursts, and each burst would delay the requests of others.
 */
const aheadMs = 250;

/**
 * Pause before a request over its limit is refused. A client that ignores `Retry-After` then sends four requests a second
 * on each connection, instead of as many as this server can refuse.
 */
const refusalDelayMs = 250;

/** Pause before a body is refused. It is longer because the server reads megabytes of the body in order to answer. */
const bodyRefusalDelayMs = 1_000;

/** After such a refusal no body of its sender is read for this long. */
const bodyRefusalMs = 5_000;

const secondsOf = (ms: number) => Math.ceil(ms / 1_000);

const tooManyRequests = (waitMs: number) => errors.tooManyRequests(secondsOf(waitMs));

/** The rate limits of one API; setting the rate to 0 turns all of them off. */
export class RequestLimits {
  readonly #byKey: RateLimiter | undefined;
  readonly #byWorkspace: RateLimiter | undefined;
  readonly #byAddress: RateLimiter | undefined;
  readonly #signIns: RateLimiter | undefined;
  readonly #deviceLogins: RateLimiter | undefined;
  readonly #devicePolls: RateLimiter | undefined;
  readonly #wrongUserCodes: RateLimiter | undefined;
  readonly #refusedBodies: RateLimiter | undefined;
  readonly #proxies: TrustedProxies;

  constructor(limit: RateLimit, proxies: TrustedProxies) {
    this.#byKey = limit.perS === 0 ? undefined : new RateLimiter(limit);
    const ofWorkspace = { perS: limit.perS * keysOfWorkspace, burst: limit.burst * keysOfWorkspace };
    this.#byWorkspace = limit.perS === 0 ? undefined : new RateLimiter(ofWorkspace);
    this.#byAddress = limit.perS === 0 ? undefined : new RateLimiter(wrongKeys);
    this.#signIns = limit.perS === 0 ? undefined : new RateLimiter(signIns);
    this.#deviceLogins = limit.perS === 0 ? undefined : new RateLimiter(deviceLogins);
    this.#devicePolls = limit.perS === 0 ? undefined : new RateLimiter(devicePolls);
    this.#wrongUserCodes = limit.perS === 0 ? undefined : new RateLimiter(wrongUserCodes);
    this.#refusedBodies = limit.perS === 0 ? undefined : new RateLimiter(refusedBodies);
    this.#proxies = proxies;
  }

  /** Returns the address that requests without a key are counted by. */
  addressOf({ raw }: FastifyRequest): string {
    return networkOf(this.#proxies.clientOf(raw));
  }

  /**
   * Counts a request of a key and of its workspace, if it has one. Waits up to {@link aheadMs} for a token.
   * @throws ApiError 429, after a pause, when the key or the workspace exceeds its limit.
   */
  async count({ keyId, ownerId }: { keyId: string; ownerId: string | null }): Promise<void> {
    const ofKeyMs = this.#byKey?.take(keyId, aheadMs) ?? 0;
    const isCounted = ofKeyMs <= aheadMs && ownerId !== null;
    const waitMs = Math.max(ofKeyMs, isCounted ? (this.#byWorkspace?.take(ownerId, aheadMs) ?? 0) : 0);
    if (waitMs === 0) return;
    const isAdmitted = waitMs <= aheadMs;
    await sleep(isAdmitted ? waitMs : refusalDelayMs, undefined, { ref: false });
    if (!isAdmitted) throw tooManyRequests(waitMs);
  }

  /** Counts a sign-in that is started. @throws ApiError 429 when too many were started from this address. */
  countSignIn(request: FastifyRequest): void {
    const waitMs = this.#signIns?.take(this.addressOf(request)) ?? 0;
    if (waitMs > 0) throw tooManyRequests(waitMs);
  }

  /** Counts a command line that starts to sign in. @throws ApiError 429 when too many did from this address. */
  countDeviceLogin(request: FastifyRequest): void {
    const waitMs = this.#deviceLogins?.take(this.addressOf(request)) ?? 0;
    if (waitMs > 0) throw tooManyRequests(waitMs);
  }

  /** Counts a poll of a command line. @throws ApiError 429 when too many came from this address. */
  countDevicePoll(request: FastifyRequest): void {
    const waitMs = this.#devicePolls?.take(this.addressOf(request)) ?? 0;
    if (waitMs > 0) throw tooManyRequests(waitMs);
  }

  /** @throws ApiError 429 when this caller typed too many wrong codes of command lines. */
  admitUserCode(keyId: string): void {
    const waitMs = this.#wrongUserCodes?.waitMs(keyId) ?? 0;
    if (waitMs > 0) throw tooManyRequests(waitMs);
  }

  countWrongUserCode(keyId: string): void {
    this.#wrongUserCodes?.take(keyId);
  }

  /** Returns for how many seconds no body of this owner is read, because too many were refused; 0 when it may be read. */
  bodyWaitS(owner: string): number {
    return secondsOf(this.#refusedBodies?.waitMs(owner) ?? 0);
  }

  /** Reads no body of this owner for some seconds more, because it goes on sending. @throws ApiError 429, after a pause. */
  async refuseBody(owner: string): Promise<never> {
    await sleep(bodyRefusalDelayMs, undefined, { ref: false });
    this.#refusedBodies?.empty(owner, bodyRefusalMs);
    throw tooManyRequests(bodyRefusalMs);
  }

  /**
   * Waits before a body without a key is refused for lack of memory. Without it 200 connections whose bodies of 1 MiB were refused at once
   * made requests of others wait for 50 ms in the median, as long as they came.
   */
  pauseBodies(): Promise<void> {
    return sleep(bodyRefusalDelayMs, undefined, { ref: false });
  }

  /** Counts a body that is too large, too deep, too slow, incomplete or malformed. */
  countRefusedBody(owner: string): void {
    this.#refusedBodies?.take(owner);
  }

  /**
   * Authenticates a request and counts a wrong key of its address. A valid key is always accepted, because behind a proxy or a
   * gateway of a network many clients share one address. Guesses stay cheap: the store looks up waiting keys with one statement.
   * @throws ApiError what `find` throws; 429 instead of 401 when too many wrong keys came from the address.
   */
  async admit<P>(
    request: FastifyRequest,
    find: (credentials: Credentials) => Promise<P>,
    credentials = credentialsOf(request.headers),
  ): Promise<P> {
    const limiter = this.#byAddress;
    const secret = credentials.key ?? credentials.serviceKey ?? credentials.session;
    if (limiter === undefined || secret === undefined) return find(credentials);
    try {
      return await find(credentials);
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "invalidToken")) throw error;
      const waitMs = limiter.take(this.addressOf(request));
      throw waitMs > 0 ? tooManyRequests(waitMs) : error;
    }
  }
}
