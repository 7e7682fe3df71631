import { hash } from "node:crypto";
import { type Clock, jitteredBackoffMs } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import { CallRefused, type ListenerSession, StaleEpoch } from "../../client/listener-client.ts";
import type { Cause, DeploymentReport } from "../../contract/listeners/assignment.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { RolloutSpans } from "./rollout-spans.ts";
import type { Snapshot } from "./snapshot.ts";

interface Pending {
  snapshot: Snapshot;
  digests: Digests;
}

/** Digests of a snapshot. The snapshot itself takes about 500 bytes, and the reporter remembers one per deployment. */
interface Digests {
  all: string;
  /** Digest of the fields that a rollout waits for. */
  urgent: string;
}

/** Urgent reports are sent at once, or this long after the previous call, so that a burst takes only a few calls. */
const urgentDelayMs = 15;

/** Enough to batch the snapshots of one tick. */
const batchDelayMs = 1;

/** Delay of all other reports, such as a change in the number of replicas or restarts. */
const ordinaryDelayMs = 1_000;

/** Maximum number of reports in one call, given by the protocol. */
const batchMax = 100;

const reportTimeoutMs = 30_000;

/** Limit for each of the last log lines in a report. The log has the full line, and an oversized report would be refused. */
const lineLengthMax = 4_096;

const retryBounds = { firstMs: 1_000, maxMs: 30_000 };

/**
 * Reports the state of every deployment to the control plane. A new snapshot replaces an unsent one, so at most one report
 * per deployment is pending however long the control plane is away. A snapshot without news is not sent.
 */
export class Reporter {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onStored: (snapshot: Snapshot) => void;
  readonly #onStale: (error: StaleEpoch) => void;
  readonly #rollouts: RolloutSpans;
  readonly #pending = new Map<string, Pending>();
  /** The pending deployments whose report is urgent. */
  readonly #urgent = new Set<string>();
  /** Digests of the snapshots that the control plane has stored in this session. */
  readonly #stored = new Map<string, Digests>();
  #session: ListenerSession | null = null;
  #signal = new AbortController();
  #seq = 0;
  #failures = 0;
  #batchSize = batchMax;
  #isSending = false;
  #sentAtMs = 0;
  #dueAtMs: number | null = null;
  #cancelDue = () => {};

  constructor(options: {
    clock: Clock;
    logger: Logger;
    /** The control plane has stored this snapshot. A newer one may be in flight. */
    onStored: (snapshot: Snapshot) => void;
    onStale: (error: StaleEpoch) => void;
    /** Default: no tracing. */
    rollouts?: RolloutSpans;
  }) {
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#onStored = options.onStored;
    this.#onStale = options.onStale;
    this.#rollouts = options.rollouts ?? new RolloutSpans();
  }

  get pendingCount(): number {
    return this.#pending.size;
  }

  /** Switches to a new session: `seq` and the stored digests start again. Null: nothing is reported. */
  follow(session: ListenerSession | null): void {
    this.#session = session;
    this.#seq = 0;
    this.#failures = 0;
    this.#stored.clear();
    this.#signal.abort();
    this.#signal = new AbortController();
    if (session === null) {
      this.#forgetAll();
      this.#rollouts.clear();
    }
    if (this.#pending.size > 0) this.#sendWithin(this.#urgentDelayMs());
  }

  put(observed: Snapshot): void {
    const snapshot = sanitizeSnapshot(observed);
    const { deployment_id: deploymentId } = snapshot;
    const digests = digestsOf(snapshot);
    const known = this.#pending.get(deploymentId)?.digests ?? this.#stored.get(deploymentId);
    if (digests.all === known?.all) return;
    this.#pending.set(deploymentId, { snapshot, digests });
    const isUrgent = digests.urgent !== known?.urgent;
    if (isUrgent) this.#urgent.add(deploymentId);
    this.#sendWithin(isUrgent ? this.#urgentDelayMs() : ordinaryDelayMs);
  }

  /** Drops everything about a deployment. */
  forget(deploymentId: string): void {
    this.#pending.delete(deploymentId);
    this.#urgent.delete(deploymentId);
    this.#stored.delete(deploymentId);
  }

  #forgetAll(): void {
    this.#pending.clear();
    this.#urgent.clear();
  }

  close(): void {
    this.#cancelDue();
    this.#signal.abort();
    this.#session = null;
  }

  #sendWithin(delayMs: number): void {
    const dueAtMs = this.#clock.now() + delayMs;
    if (this.#isSending || this.#session === null || (this.#dueAtMs !== null && this.#dueAtMs <= dueAtMs)) return;
    this.#cancelDue();
    this.#dueAtMs = dueAtMs;
    this.#cancelDue = this.#clock.setTimeout(() => {
      this.#dueAtMs = null;
      void this.#send();
    }, delayMs);
  }

  async #send(): Promise<void> {
    const session = this.#session;
    if (session === null || this.#isSending) return;
    const { signal } = this.#signal;
    const batch = this.#nextBatch();
    const reports = batch.map(({ snapshot }): DeploymentReport => ({ ...snapshot, seq: ++this.#seq }));
    const options = { clock: this.#clock, timeoutMs: reportTimeoutMs, signal };
    this.#isSending = true;
    try {
      await this.#rollouts.reporting(reports, () =>
        withDeadline(options, (ending) => session.report({ reports }, ending)),
      );
      if (!signal.aborted) this.#recordStored(batch);
    } catch (error) {
      if (!signal.aborted) this.#handleFailure(error, batch);
    }
    this.#isSending = false;
    this.#sentAtMs = this.#clock.now();
    if (this.#pending.size > 0) this.#sendWithin(this.#nextDelayMs());
  }

  #nextBatch(): Pending[] {
    const urgent = [...this.#urgent].flatMap((deploymentId) => this.#pending.get(deploymentId) ?? []);
    if (urgent.length >= this.#batchSize) return urgent.slice(0, this.#batchSize);
    const others = [...this.#pending.values()].filter(({ snapshot }) => !this.#urgent.has(snapshot.deployment_id));
    return [...urgent, ...others.slice(0, this.#batchSize - urgent.length)];
  }

  #urgentDelayMs(): number {
    return Math.max(batchDelayMs, this.#sentAtMs + urgentDelayMs - this.#clock.now());
  }

  #nextDelayMs(): number {
    if (this.#failures > 0) return jitteredBackoffMs(this.#clock, this.#failures, retryBounds);
    if (this.#pending.size >= batchMax) return 0;
    return this.#urgent.size > 0 ? this.#urgentDelayMs() : ordinaryDelayMs;
  }

  #recordStored(batch: Pending[]): void {
    if (this.#failures > 0) this.#logger.info({ failures: this.#failures }, "reports accepted again");
    this.#failures = 0;
    this.#batchSize = batchMax;
    for (const { snapshot, digests } of batch) {
      const deploymentId = snapshot.deployment_id;
      this.#stored.set(deploymentId, digests);
      if (this.#pending.get(deploymentId)?.digests.all === digests.all) {
        this.#pending.delete(deploymentId);
        this.#urgent.delete(deploymentId);
      }
      this.#rollouts.stored(snapshot);
      this.#onStored(snapshot);
    }
  }

  #handleFailure(error: unknown, batch: Pending[]): void {
    if (error instanceof StaleEpoch) {
      this.#onStale(error);
      return;
    }
    const status = error instanceof CallRefused ? error.status : null;
    if (status === 400 || status === 413 || status === 422) this.#splitBatch(batch, error);
    else this.#failures += 1;
    if (this.#failures === 1) this.#logger.warn({ status, error: describeError(error) }, "reports not accepted");
  }

  /** Halves the batch to find the one report that the control plane refuses, and drops it, so that it cannot block the others. */
  #splitBatch(batch: Pending[], error: unknown): void {
    const [only] = batch;
    if (batch.length > 1 || only === undefined) {
      this.#batchSize = Math.ceil(batch.length / 2);
      return;
    }
    const deploymentId = only.snapshot.deployment_id;
    this.#logger.error({ deployment_id: deploymentId, error: describeError(error) }, "report refused and dropped");
    this.#stored.set(deploymentId, only.digests);
    if (this.#pending.get(deploymentId) === only) this.#pending.delete(deploymentId);
    this.#urgent.delete(deploymentId);
    this.#batchSize = batchMax;
  }
}

/** Returns the snapshot with texts of the agent sanitized, because the control plane would refuse the report otherwise. */
function sanitizeSnapshot(snapshot: Snapshot): Snapshot {
  const { cause, last_exit: exit, server_version: version } = snapshot;
  if (cause === null && version === null && exit === undefined) return snapshot;
  return {
    ...snapshot,
    cause: cause && sanitizeCause(cause),
    ...(exit !== undefined && { last_exit: { ...exit, cause: sanitizeCause(exit.cause) } }),
    server_version: version && sanitizeText(version),
  };
}

const sanitizeCause = (cause: Cause): Cause => ({
  ...cause,
  message: sanitizeText(cause.message),
  last_lines: cause.last_lines.map((line) => sanitizeText(line.slice(0, lineLengthMax))),
});

function digestsOf(snapshot: Snapshot): Digests {
  const { generation, target_revision_id, target_phase, serving_revision_id, asleep, deleted } = snapshot;
  const awaited = [generation, target_revision_id, target_phase, serving_revision_id, asleep, deleted];
  return { all: digestOf(snapshot), urgent: digestOf(awaited) };
}

const digestOf = (value: unknown) => hash("sha256", JSON.stringify(value), "base64url");
