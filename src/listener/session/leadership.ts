import {
  CallRefused,
  Gone,
  type ListenerClient,
  type ListenerSession,
  StaleEpoch,
  waitMsMax,
} from "../../client/listener-client.ts";
import type { Assignment, Inventory, SessionRequest } from "../../contract/listeners/assignment.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { type Clock, jitteredBackoffMs, sleep } from "../clock.ts";
import { withDeadline } from "../deadline.ts";
import { compact } from "./compact-assignments.ts";

/** A control plane that went away comes back to its listeners one by one. */
const retryBounds = { firstMs: 1_000, maxMs: 30_000 };

/** The lease of an instance that died ends soon, and one that waits for it costs little. */
const busyBounds = { firstMs: 1_000, maxMs: 5_000 };

/** A long poll that is answered with nothing at once is not one: no faster than this. */
const emptyPageMs = 1_000;

const callTimeoutMs = 30_000;

/** A stream shows by itself that it is alive: beside one, every third heartbeat is enough to find one that is stuck. */
const heartbeatsPerProbe = 3;

/** After so many streams in a row that brought nothing, something on the way holds them back; polls get through. */
const emptyStreamsMax = 2;

/** What is held is compared this often: whatever both sides missed is found within this. */
const inventoryMs = 600_000;

/** The control plane wants nothing changed until it says otherwise. */
class Draining extends Error {
  override name = "Draining";
}

/** At the end nobody waits for a control plane that does not answer. */
const closeTimeoutMs = 2_000;

interface Timestamp {
  nowMs: number;
  monotonicMs: number;
}

/**
 * Being the one instance that acts for a listener: opens the session, keeps it, follows the assignments. A control plane
 * that does not answer changes nothing: what was last asked for stays in force, and the session with it. Only word of a
 * newer session (a higher epoch) ends it, at once.
 */
export class Leadership {
  readonly #client: ListenerClient;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #request: SessionRequest;
  readonly #onGained: (session: ListenerSession) => void;
  readonly #onLost: (reason: Error) => void;
  readonly #onAssignments: (assignments: Assignment[]) => void;
  readonly #onListed: (deploymentIds: ReadonlySet<string>) => void;
  readonly #held: () => Inventory["items"];
  readonly #onUnknown: (deploymentIds: ReadonlySet<string>) => void;
  readonly #onLeaseRegained: () => void;
  readonly #requiresLease: boolean;
  readonly #stopping = new AbortController();
  #session: ListenerSession | null = null;
  #lost = new AbortController();
  /** Ends the present long poll, to ask again. */
  #poll = new AbortController();
  #rv = 0;
  #mustRelist = false;
  #isListed = false;
  #answeredAtMs: number | null = null;
  /** When the newest call began that opened or renewed the session. */
  #renewedAt: Timestamp | null = null;
  #isAnswered = true;
  #keyEndsAt: string | null = null;
  #isDrained = false;
  readonly #ownLogLevel: string;
  #isStreaming = false;
  #emptyStreams = 0;
  #ended: Promise<void> = Promise.resolve();

  constructor(options: {
    client: ListenerClient;
    clock: Clock;
    logger: Logger;
    request: SessionRequest;
    onGained: (session: ListenerSession) => void;
    onLost: (reason: Error) => void;
    onAssignments: (assignments: Assignment[]) => void;
    /** All deployments there are have been named. */
    onListed: (deploymentIds: ReadonlySet<string>) => void;
    /** What this listener believes it should run. */
    held: () => Inventory["items"];
    /** The control plane knows nothing of these, though they were named once. */
    onUnknown: (deploymentIds: ReadonlySet<string>) => void;
    /** `isSure` again. */
    onLeaseRegained: () => void;
    /** `isSure` matters. A sign of life from a stream does not do for it: it may have waited in a buffer for long. */
    requiresLease: boolean;
  }) {
    this.#client = options.client;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#ownLogLevel = options.logger.level;
    this.#request = options.request;
    this.#onGained = options.onGained;
    this.#onLost = options.onLost;
    this.#onAssignments = (assignments) => options.onAssignments(compact(assignments));
    this.#onListed = options.onListed;
    this.#held = options.held;
    this.#onUnknown = options.onUnknown;
    this.#onLeaseRegained = options.onLeaseRegained;
    this.#requiresLease = options.requiresLease;
  }

  get session(): ListenerSession | null {
    return this.#session;
  }

  get isListed(): boolean {
    return this.#isListed;
  }

  /** Told to change nothing: it stands by. */
  get isDrained(): boolean {
    return this.#isDrained;
  }

  get answeredAt(): Date | null {
    return this.#answeredAtMs === null ? null : new Date(this.#answeredAtMs);
  }

  /**
   * Whether no other instance can have been let in: the control plane has heard of this one within the lease. Else what
   * is not known here may be that one's work.
   */
  get isLeaseValid(): boolean {
    if (this.#session === null || this.#renewedAt === null) return false;
    // One of the two goes back when somebody sets the clock, the other one stands still while a machine sleeps.
    const wallMs = this.#clock.now() - this.#renewedAt.nowMs;
    const steadyMs = this.#clock.monotonicMs() - this.#renewedAt.monotonicMs;
    return Math.max(wallMs, steadyMs) < this.#session.lease_ttl_s * 1_000;
  }

  start(): void {
    // Its only rejection is the word to stop.
    this.#ended = this.#run().catch(() => {});
  }

  /** Another instance leads: stops acting in this very moment. */
  endSession(reason: Error): void {
    if (this.#session === null) return;
    this.#session = null;
    this.#isListed = false;
    this.#lost.abort(reason);
    this.#onLost(reason);
  }

  async stop(): Promise<void> {
    const session = this.#session;
    const reason = new Error("the listener stops");
    this.#stopping.abort(reason);
    this.endSession(reason);
    await this.#ended;
    if (session !== null) await this.#closeSession(session);
  }

  /** Without it the next instance waits for the lease to end. */
  async #closeSession(session: ListenerSession): Promise<void> {
    const options = { clock: this.#clock, timeoutMs: closeTimeoutMs, signal: new AbortController().signal };
    await withDeadline(options, (signal) => session.close(signal)).catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const session = await this.#callUntilAnswered(signal, (ending) => {
        this.#renewedAt = this.#timestamp();
        return this.#client.openSession(this.#request, ending);
      });
      this.#logger.info({ listener_id: session.listener_id, epoch: session.epoch }, "listener session opened");
      this.#setDrained(false);
      this.#lost = new AbortController();
      this.#session = session;
      this.#onGained(session);
      await this.#runSession(session);
      this.#logger.level = this.#ownLogLevel;
      signal.throwIfAborted();
      if (this.#lost.signal.reason instanceof Draining) {
        await this.#closeSession(session);
        continue;
      }
      if (this.#lost.signal.reason instanceof Gone) {
        await sleep(this.#clock, busyBounds.firstMs, signal);
        continue;
      }
      this.#logger.warn({ epoch: session.epoch, retry_ms: session.lease_ttl_s * 1_000 }, "another instance leads");
      // As long as that one is alive it renews its lease; taking it away from each other helps nobody.
      await sleep(this.#clock, session.lease_ttl_s * 1_000, signal);
    }
  }

  /** Resolves once the session is lost. */
  async #runSession(session: ListenerSession): Promise<void> {
    const { signal } = this.#lost;
    const end = (error: unknown) => {
      if (signal.aborted) return;
      if (error instanceof Draining) this.#setDrained(true);
      // What is believed here, and what was answer there, is of another history: a new session begins from nothing.
      else if (error instanceof Gone)
        this.#logger.warn("the control plane knows less than before: all is listed again");
      else if (!(error instanceof StaleEpoch))
        this.#logger.error({ error: describeError(error) }, "listener session broke");
      this.endSession(error as Error);
    };
    const tasks = [
      this.#follow(session, signal),
      this.#sendHeartbeats(session, signal),
      this.#compareInventory(session, signal),
    ];
    await Promise.all(tasks.map((task) => task.catch(end)));
  }

  async #follow(session: ListenerSession, signal: AbortSignal): Promise<never> {
    let listed: Set<string> | null = new Set();
    this.#rv = 0;
    this.#emptyStreams = 0;
    for (;;) {
      const beganAtMs = this.#clock.monotonicMs();
      if (listed === null) await this.#stream(session, signal);
      const waitMs = listed === null && !this.#mayStream(session) ? waitMsMax : 0;
      const page = await this.#readAssignments(session, waitMs, signal);
      if (this.#mustRelist) {
        this.#mustRelist = false;
        this.#rv = 0;
        listed = new Set();
        continue;
      }
      this.#rv = page.rv;
      if (page.items.length > 0) this.#onAssignments(page.items);
      for (const { deployment_id } of page.items) listed?.add(deployment_id);
      if (listed !== null && !page.more) {
        this.#logger.info({ deployments: listed.size }, "assignments listed");
        this.#isListed = true;
        this.#onListed(listed);
        listed = null;
      } else if (page.items.length === 0 && this.#clock.monotonicMs() - beganAtMs < emptyPageMs) {
        await sleep(this.#clock, emptyPageMs, signal);
      }
    }
  }

  #mayStream({ stream }: ListenerSession): boolean {
    return stream !== undefined && this.#emptyStreams < emptyStreamsMax;
  }

  /** Follows what is answer as it happens, until that ends. Why it did, the next question is answered with. */
  async #stream(session: ListenerSession, signal: AbortSignal): Promise<void> {
    if (session.stream === undefined || !this.#mayStream(session)) return;
    this.#poll = new AbortController();
    try {
      for await (const page of session.stream(this.#rv, AbortSignal.any([signal, this.#poll.signal]))) {
        signal.throwIfAborted();
        if (this.#mustRelist) return;
        this.#isStreaming = true;
        this.#recordAnswer();
        if (page === null) continue;
        this.#rv = page.rv;
        if (page.items.length > 0) this.#onAssignments(page.items);
      }
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof StaleEpoch) throw error;
    } finally {
      this.#emptyStreams = this.#isStreaming ? 0 : this.#emptyStreams + 1;
      this.#isStreaming = false;
    }
  }

  #readAssignments(session: ListenerSession, waitMs: number, signal: AbortSignal) {
    return this.#callUntilAnswered(signal, (ending) => {
      this.#poll = new AbortController();
      return session.desired(this.#rv, waitMs, AbortSignal.any([ending, this.#poll.signal]));
    });
  }

  async #sendHeartbeats(session: ListenerSession, signal: AbortSignal): Promise<never> {
    for (let beat = 1; ; beat++) {
      await sleep(this.#clock, session.heartbeat_s * 1_000, signal);
      if (this.#isStreaming && !this.#requiresLease && beat % heartbeatsPerProbe !== 0) continue;
      const rvBefore = this.#rv;
      const beganAt = this.#timestamp();
      const options = { clock: this.#clock, timeoutMs: callTimeoutMs, signal };
      try {
        const answer = await withDeadline(options, (ending) => session.heartbeat(ending));
        const { rv, key_ends_at: keyEndsAt = null, log_level: logLevel } = answer;
        this.#logKey(keyEndsAt);
        this.#logger.level = logLevel ?? this.#ownLogLevel;
        if (answer.drain === true) throw new Draining("the control plane wants nothing changed");
        this.#recordAnswer();
        this.#recordRenewal(beganAt);
        // The long poll hangs on a dead connection: it would have been answered otherwise.
        if (rv > rvBefore && this.#rv === rvBefore && this.#isListed) this.#poll.abort(new Error("there is news"));
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof StaleEpoch || error instanceof Draining) throw error;
      }
    }
  }

  /** Finds what a lost change, a restored database or a deletion by force left behind. */
  async #compareInventory(session: ListenerSession, signal: AbortSignal): Promise<never> {
    for (;;) {
      await sleep(this.#clock, jitteredBackoffMs(this.#clock, 1, { firstMs: inventoryMs, maxMs: inventoryMs }), signal);
      if (!this.#isListed) continue;
      const items = this.#held();
      const { unknown, is_behind: isBehind } = await this.#callUntilAnswered(signal, (ending) =>
        session.compare({ items }, ending),
      );
      if (unknown.length > 0) this.#onUnknown(new Set(unknown));
      if (!isBehind) continue;
      this.#logger.warn({ held: items.length }, "assignments are behind and listed again");
      this.#mustRelist = true;
      this.#rv = 0;
      this.#poll.abort(new Error("everything is listed again"));
    }
  }

  /** Repeats a call until it is answered or refused for good. @throws StaleEpoch, Gone, the reason of `signal`. */
  async #callUntilAnswered<T>(signal: AbortSignal, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const timeoutMs = callTimeoutMs + waitMsMax;
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await withDeadline({ clock: this.#clock, timeoutMs, signal }, call);
        this.#recordAnswer();
        return answer;
      } catch (error) {
        signal.throwIfAborted();
        if (this.#session !== null && (error instanceof StaleEpoch || error instanceof Gone)) throw error;
        if (this.#poll.signal.aborted) {
          this.#poll = new AbortController();
          continue;
        }
        await sleep(this.#clock, jitteredBackoffMs(this.#clock, attempt, this.#retryBoundsAfter(error)), signal);
      }
    }
  }

  /** Said once: whoever made a newer key has to put it where this one is read from. */
  #logKey(endsAt: string | null): void {
    if (endsAt === this.#keyEndsAt) return;
    this.#keyEndsAt = endsAt;
    if (endsAt === null) this.#logger.info("the newer key is in use");
    else this.#logger.warn({ ends_at: endsAt }, "the key of this listener ends, for there is a newer one");
  }

  #setDrained(isDrained: boolean): void {
    if (isDrained === this.#isDrained) return;
    this.#isDrained = isDrained;
    this.#logger.warn(isDrained ? "nothing is changed until the control plane says so" : "changes are made again");
  }

  #recordAnswer(): void {
    this.#answeredAtMs = this.#clock.now();
    if (!this.#isAnswered) this.#logger.info("control plane answers again");
    this.#isAnswered = true;
  }

  #timestamp(): Timestamp {
    return { nowMs: this.#clock.now(), monotonicMs: this.#clock.monotonicMs() };
  }

  #recordRenewal(at: Timestamp): void {
    const wasValid = this.isLeaseValid;
    this.#renewedAt = at;
    if (!wasValid && this.isLeaseValid) this.#onLeaseRegained();
  }

  /** @returns how long to wait before the call is repeated. */
  #retryBoundsAfter(error: unknown): typeof retryBounds {
    const refusal = error instanceof CallRefused ? error.error : null;
    const isDrained = refusal === "listener_draining";
    if (isDrained) this.#setDrained(true);
    else this.#logUnanswered(error);
    return isDrained || refusal === "listener_busy" ? busyBounds : retryBounds;
  }

  #logUnanswered(error: unknown): void {
    const status = error instanceof CallRefused ? error.status : null;
    if (this.#isAnswered) this.#logger.warn({ status, error: describeError(error) }, "control plane does not answer");
    this.#isAnswered = false;
  }
}
