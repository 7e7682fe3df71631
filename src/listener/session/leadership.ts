import { type Clock, jitteredBackoffMs, sleep } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import {
  CallRefused,
  Gone,
  type ListenerClient,
  type ListenerSession,
  StaleEpoch,
  waitMsMax,
} from "../../client/listener-client.ts";
import {
  type Assignment,
  type Inventory,
  inventoryPageMax,
  type SessionRequest,
} from "../../contract/listeners/assignment.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { compact } from "./compact-assignments.ts";

/** Spreads the reconnects of many listeners after the control plane was away. */
const retryBounds = { firstMs: 1_000, maxMs: 30_000 };

/** The lease of a crashed instance ends soon, and asking often costs little. */
const busyBounds = { firstMs: 1_000, maxMs: 5_000 };

/** Minimum time between two long polls that return nothing, for a control plane that does not hold them open. */
const emptyPageMs = 1_000;

const callTimeoutMs = 30_000;

/** A stream proves that the connection is alive. Beside one, every third heartbeat is enough to detect a stuck stream. */
const heartbeatsPerProbe = 3;

/** After this many streams in a row without any message, a proxy probably buffers them, so the listener polls instead. */
const emptyStreamsMax = 2;

/** Interval of the inventory comparison. It finds any difference that both sides missed. */
const inventoryMs = 600_000;

/** The control plane has asked this listener to change nothing for now. */
class Draining extends Error {
  override name = "Draining";
}

/** On shutdown, the listener does not wait longer for a control plane that does not answer. */
const closeTimeoutMs = 2_000;

interface Timestamp {
  nowMs: number;
  monotonicMs: number;
}

/**
 * The session of the one instance that acts for a listener. Opens it, renews it and follows the assignments. While the
 * control plane does not answer, the session and the last assignments stay in force. Only a newer session (a higher epoch)
 * ends this one, and at once.
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
  /** Aborts the current long poll or stream, so that the listener asks again. */
  #poll = new AbortController();
  #rv = 0;
  #mustRelist = false;
  #isListed = false;
  #answeredAtMs: number | null = null;
  /** When the last successful call that opened or renewed the session began. */
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
    /** The control plane has listed all deployments. */
    onListed: (deploymentIds: ReadonlySet<string>) => void;
    /** Returns the assignments that this listener holds. */
    held: () => Inventory["items"];
    /** The control plane no longer knows these deployments. */
    onUnknown: (deploymentIds: ReadonlySet<string>) => void;
    /** The lease is valid again after it had expired. */
    onLeaseRegained: () => void;
    /** Whether `isLeaseValid` matters. Stream messages do not renew the lease, because they may have been buffered for long. */
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

  /** Whether the control plane has asked this listener to change nothing. */
  get isDrained(): boolean {
    return this.#isDrained;
  }

  get answeredAt(): Date | null {
    return this.#answeredAtMs === null ? null : new Date(this.#answeredAtMs);
  }

  /**
   * Whether the session was renewed within the lease, so that no other instance can have opened one. Otherwise unexpected
   * changes may be the work of another instance.
   */
  get isLeaseValid(): boolean {
    if (this.#session === null || this.#renewedAt === null) return false;
    // The wall clock can be set back, and the monotonic clock stops while the machine sleeps, so take the later of the two.
    const wallMs = this.#clock.now() - this.#renewedAt.nowMs;
    const steadyMs = this.#clock.monotonicMs() - this.#renewedAt.monotonicMs;
    return Math.max(wallMs, steadyMs) < this.#session.lease_ttl_s * 1_000;
  }

  start(): void {
    // The only rejection is the abort on stop.
    this.#ended = this.#run().catch(() => {});
  }

  /** Ends the session because another instance leads. The listener stops acting at once. */
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

  /** Closes the session, so that the next instance need not wait for the lease to end. */
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
      // The other instance renews its lease while it is alive. Taking the session from each other would help neither.
      await sleep(this.#clock, session.lease_ttl_s * 1_000, signal);
    }
  }

  /** Runs the tasks of a session. Resolves once the session has ended. */
  async #runSession(session: ListenerSession): Promise<void> {
    const { signal } = this.#lost;
    const end = (error: unknown) => {
      if (signal.aborted) return;
      if (error instanceof Draining) this.#setDrained(true);
      // Both sides' state belongs to different histories, so a new session starts from nothing.
      else if (error instanceof Gone)
        this.#logger.warn("control plane has lost changes, listing all assignments again");
      else if (!(error instanceof StaleEpoch))
        this.#logger.error({ error: describeError(error) }, "listener session failed");
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

  /** Follows the stream of assignments until it ends. The next poll returns the reason why it ended. */
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
        if (answer.drain === true) throw new Draining("the listener is draining");
        this.#recordAnswer();
        this.#recordRenewal(beganAt);
        // There are newer assignments, but the long poll has not returned: its connection is dead.
        if (rv > rvBefore && this.#rv === rvBefore && this.#isListed) this.#poll.abort(new Error("poll is stuck"));
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof StaleEpoch || error instanceof Draining) throw error;
      }
    }
  }

  /** Compares inventories to find differences after a lost change, a restored database or a forced deletion. */
  async #compareInventory(session: ListenerSession, signal: AbortSignal): Promise<never> {
    for (;;) {
      await sleep(this.#clock, jitteredBackoffMs(this.#clock, 1, { firstMs: inventoryMs, maxMs: inventoryMs }), signal);
      if (!this.#isListed) continue;
      const held = this.#held();
      let isBehind = false;
      for (const page of pagesOf(held)) {
        const answer = await this.#callUntilAnswered(signal, (ending) => session.compare(page, ending));
        if (answer.unknown.length > 0) this.#onUnknown(new Set(answer.unknown));
        isBehind ||= answer.is_behind;
      }
      if (!isBehind) continue;
      this.#logger.warn({ held: held.length }, "assignments are behind, listing all again");
      this.#mustRelist = true;
      this.#rv = 0;
      this.#poll.abort(new Error("all assignments are listed again"));
    }
  }

  /** Repeats a call until it succeeds or fails for good. @throws StaleEpoch, Gone, the reason of `signal`. */
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

  /** Logs once that there is a newer key, because the operator must install it where this listener reads its key. */
  #logKey(endsAt: string | null): void {
    if (endsAt === this.#keyEndsAt) return;
    this.#keyEndsAt = endsAt;
    if (endsAt === null) this.#logger.info("listener uses its newer key");
    else this.#logger.warn({ ends_at: endsAt }, "listener key expires, a newer key exists");
  }

  #setDrained(isDrained: boolean): void {
    if (isDrained === this.#isDrained) return;
    this.#isDrained = isDrained;
    this.#logger.warn(isDrained ? "listener drained, changes nothing" : "listener resumed, changes are applied");
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

  /** Returns the back-off bounds for repeating the failed call. */
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

/** Returns the pages of an inventory. Together they cover all ids, so that a missing assignment falls into one of them. */
export function pagesOf(held: Inventory["items"], pageMax = inventoryPageMax): Inventory[] {
  const sorted = held.toSorted((a, b) => (a.deployment_id < b.deployment_id ? -1 : 1));
  const pages: Inventory[] = [];
  let after: string | null = null;
  do {
    const items = sorted.splice(0, pageMax);
    const through = sorted.length === 0 ? null : (items.at(-1)?.deployment_id ?? null);
    pages.push({ items, after, through });
    after = through;
  } while (after !== null);
  return pages;
}
