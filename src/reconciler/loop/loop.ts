import { setTimeout as sleep } from "node:timers/promises";
import {
  changePollIntervalMs,
  deploymentLeaseMs,
  leaseRenewIntervalMs,
  passTimeoutMs,
  reconcileConcurrencyMax,
} from "../../domain/limits.ts";
import { clearRetries, describeRetries } from "../../store/queue/describe-retries.ts";
import {
  type Claim,
  claim,
  dropFromQueue,
  enqueue,
  failPass,
  heartbeat,
  settlePass,
} from "../../store/queue/reconcile-queue.ts";
import { activityIntervalMs, recordServerActivity } from "../../store/queue/server-activity.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ReconcilerMetrics } from "../../telemetry/metrics.ts";
import { traceOfError } from "../../telemetry/traces.ts";
import type { ReconcilerDeps } from "../deps.ts";
import type { Outcome } from "../plan/outcome.ts";
import { retryDatabase } from "../retry-database.ts";
import { reconcileDeployment } from "./reconcile.ts";
import { resync, watchListeners } from "./resync.ts";

/** Deployments that become due within this time are claimed together. The first is claimed at once. */
const claimPauseMs = 5;

/**
 * Failures in a row after which the message of a revision shows that it is retried. A retry usually repairs a single
 * failure within a second.
 */
const shownFailuresMin = 3;

/**
 * The control-plane half of the loop: claims deployments that are due and runs one pass on each, in parallel up to a limit
 * and one at a time per deployment. Changes only wake the loop; they do not say what changed.
 */
export class ReconcilerLoop {
  readonly #deps: ReconcilerDeps;
  readonly #metrics: ReconcilerMetrics;
  readonly #settings: { owner: string; resyncIntervalMs: number };
  /** Keyed by claim: a deployment whose lease ran out may be claimed again before its previous pass has ended. */
  readonly #running = new Map<Claim, Promise<void>>();
  readonly #stopping = new AbortController();
  #timers: NodeJS.Timeout[] = [];
  #nextPoll: NodeJS.Timeout | undefined;
  #isClaiming = false;
  #claiming: Promise<void> = Promise.resolve();
  #isWoken = false;
  #activityAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ReconcilerDeps, metrics: ReconcilerMetrics, settings: { owner: string; resyncIntervalMs: number }) {
    this.#deps = deps;
    this.#metrics = metrics;
    this.#settings = settings;
  }

  start(): void {
    this.#deps.db.changes.onWake(() => this.#claimSoon());
    this.#timers = [
      setInterval(() => void this.#renew(), leaseRenewIntervalMs),
      setInterval(() => void this.#resync(), this.#settings.resyncIntervalMs),
    ];
    this.#claimSoon();
    this.#schedulePoll();
  }

  /**
   * Stops claiming and aborts the passes in progress, whose steps may be repeated. Waits for a claim in progress and gives
   * its deployments back, because no other server could claim them before their leases run out.
   */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    clearTimeout(this.#nextPoll);
    this.#stopping.abort(new Error("the server is stopping"));
    await this.#claiming;
    await Promise.allSettled(this.#running.values());
  }

  #claimSoon(): void {
    this.#isWoken = true;
    if (!this.#isClaiming && !this.#stopping.signal.aborted) this.#claiming = this.#claimDue();
  }

  /**
   * Polls for changes whose notification was lost. The interval is random: with a fixed one, a deployment that this server
   * puts off for half a second because its slots are taken would always be due at this server's polls, and never at those
   * of another server that has a free slot and polls a moment later.
   */
  #schedulePoll(): void {
    const delayMs = changePollIntervalMs * (0.75 + Math.random() / 2);
    this.#nextPoll = setTimeout(() => {
      this.#claimSoon();
      this.#schedulePoll();
    }, delayMs);
  }

  async #claimDue(): Promise<void> {
    const { db, logger } = this.#deps;
    this.#isClaiming = true;
    try {
      // Before the claim, because it may extend deadlines of the claimed deployments.
      await this.#recordActivity();
      while (this.#isWoken && this.#running.size < reconcileConcurrencyMax && !this.#stopping.signal.aborted) {
        this.#isWoken = false;
        const limit = reconcileConcurrencyMax - this.#running.size;
        const claims = await claim(db, { owner: this.#settings.owner, limit, leaseMs: deploymentLeaseMs });
        for (const one of claims) this.#running.set(one, this.#pass(one));
        // As many as requested: there may be more. Fewer: everything that is due has been claimed.
        if (claims.length === limit) this.#isWoken = true;
        await sleep(claimPauseMs);
      }
    } catch (error) {
      logger.warn({ error: describeError(error) }, "claiming deployments failed");
    } finally {
      this.#isClaiming = false;
    }
  }

  async #recordActivity(): Promise<void> {
    const { db, logger } = this.#deps;
    const nowMs = performance.now();
    if (nowMs - this.#activityAtMs < activityIntervalMs) return;
    const pauseMs = await recordServerActivity(db);
    this.#activityAtMs = nowMs;
    const seconds = Math.round(pauseMs / 1_000);
    if (seconds > 0) logger.info({ seconds }, "no server worked for a while: deadlines extended");
  }

  async #pass(one: Claim): Promise<void> {
    const { db, logger } = this.#deps;
    const began = performance.now();
    const { signal, release } = this.#passSignal();
    const key = { deploymentId: one.deploymentId, owner: this.#settings.owner, generation: one.generation };
    try {
      // The server was stopped during the claim.
      this.#stopping.signal.throwIfAborted();
      const outcome = await reconcileDeployment(this.#deps, one.deploymentId, signal);
      const durationMs = performance.now() - began;
      await this.#settle(key, outcome, durationMs);
      if (outcome.kind === "waiting" && outcome.isProblem) await this.#describe(one, outcome.because);
      // Passes that wait because of a problem count as no attempts.
      else if (one.attempts > 0 || outcome.wasRetried) await clearRetries(db, one.deploymentId);
      this.#metrics.passes.inc({ outcome: outcome.kind });
      this.#metrics.passSeconds.observe(durationMs / 1_000);
    } catch (error) {
      this.#metrics.passes.inc({ outcome: "failed" });
      const ids = { deployment_id: one.deploymentId, ...traceOfError(error) };
      const fields = { ...ids, attempts: one.attempts, error: describeError(error) };
      if (!this.#stopping.signal.aborted) logger.error(fields, "reconcile pass failed");
      const failure = { ...key, because: describeError(error), durationMs: performance.now() - began };
      // Retried while the database is away, until the lease has run out anyway.
      const end = { forMs: deploymentLeaseMs, signal: this.#stopping.signal };
      const isFailed = await retryDatabase(() => failPass(db, failure), end).catch(() => false);
      if (isFailed && one.attempts + 1 >= shownFailuresMin) await this.#describe(one, failure.because);
    } finally {
      release();
      this.#running.delete(one);
      this.#claimSoon();
    }
  }

  /** Shows why the revisions in progress are retried. A message that is lost comes with the next attempt. */
  async #describe({ deploymentId }: Claim, error: string): Promise<void> {
    const { db, logger } = this.#deps;
    if (this.#stopping.signal.aborted) return;
    await describeRetries(db, deploymentId, error).catch((lost: unknown) => {
      logger.warn({ deployment_id: deploymentId, error: describeError(lost) }, "retries could not be described");
    });
  }

  /** Not AbortSignal.timeout: its timer would keep a pass in memory until it fires, 90 s after the start. */
  #passSignal(): { signal: AbortSignal; release: () => void } {
    const ending = new AbortController();
    const stopping = this.#stopping.signal;
    const end = () => ending.abort(stopping.reason ?? new DOMException("the pass took too long", "TimeoutError"));
    const timer = setTimeout(end, passTimeoutMs);
    stopping.addEventListener("abort", end, { once: true });
    const release = () => {
      clearTimeout(timer);
      stopping.removeEventListener("abort", end);
    };
    return { signal: ending.signal, release };
  }

  async #settle(key: Omit<Claim, "attempts"> & { owner: string }, outcome: Outcome, durationMs: number): Promise<void> {
    const { db } = this.#deps;
    if (outcome.kind === "converged" && outcome.isGone) return dropFromQueue(db, key);
    const { kind, because } = outcome;
    const retryAt = outcome.kind === "waiting" ? outcome.retryAt : null;
    const isSettled = await settlePass(db, { ...key, outcome: { kind, because, durationMs }, retryAt });
    // The lease was lost. Moves of this pass enqueued nothing, because the pass would have read the deployment again
    // itself.
    if (!isSettled) await enqueue(db, key.deploymentId);
  }

  async #renew(): Promise<void> {
    const deploymentIds = [...this.#running.keys()].map(({ deploymentId }) => deploymentId);
    if (deploymentIds.length === 0) return;
    try {
      await heartbeat(this.#deps.db, { owner: this.#settings.owner, deploymentIds, leaseMs: deploymentLeaseMs });
    } catch (error) {
      this.#deps.logger.warn({ error: describeError(error) }, "reconcile heartbeat failed");
    }
  }

  async #resync(): Promise<void> {
    // While the database is away, nothing is known of listeners either. The failed claim has been logged already.
    const isDatabaseAway = await this.#recordActivity().then(
      () => false,
      () => true,
    );
    if (isDatabaseAway) return;
    await watchListeners(this.#deps);
    if ((await resync(this.#deps, this.#metrics)) > 0) this.#claimSoon();
  }
}
