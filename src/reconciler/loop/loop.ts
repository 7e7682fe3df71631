import { setTimeout as sleep } from "node:timers/promises";
import {
  changePollIntervalMs,
  deploymentLeaseMs,
  leaseRenewIntervalMs,
  passTimeoutMs,
  reconcileConcurrencyMax,
} from "../../domain/limits.ts";
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
import { tryAgain } from "../retry-database.ts";
import { reconcileDeployment } from "./reconcile.ts";
import { resync, watchListeners } from "./resync.ts";

/** What becomes due within this time is claimed together; the first is claimed at once. */
const claimPauseMs = 5;

/**
 * The control-plane half of the loop: claims deployments that are due, runs one pass on each, in parallel up to a bound,
 * one at a time per deployment. Woken by changes; never told what they were.
 */
export class ReconcilerLoop {
  readonly #deps: ReconcilerDeps;
  readonly #metrics: ReconcilerMetrics;
  readonly #settings: { owner: string; resyncIntervalMs: number };
  /** By claim: a deployment whose lease ran out may be claimed again before its last pass has ended. */
  readonly #running = new Map<Claim, Promise<void>>();
  readonly #stopping = new AbortController();
  #timers: NodeJS.Timeout[] = [];
  #nextLook: NodeJS.Timeout | undefined;
  #isClaiming = false;
  #claiming: Promise<void> = Promise.resolve();
  #isWoken = false;
  #notedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ReconcilerDeps, metrics: ReconcilerMetrics, settings: { owner: string; resyncIntervalMs: number }) {
    this.#deps = deps;
    this.#metrics = metrics;
    this.#settings = settings;
  }

  start(): void {
    this.#deps.db.changes.onWake(() => this.#look());
    this.#timers = [
      setInterval(() => void this.#renew(), leaseRenewIntervalMs),
      setInterval(() => void this.#resync(), this.#settings.resyncIntervalMs),
    ];
    this.#look();
    this.#lookLater();
  }

  /**
   * Takes no more and ends the passes that run: what they wait for is aborted, and their steps may be repeated. What a claim
   * that is under way brings is given back: nobody else could have it until its lease has run out.
   */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    clearTimeout(this.#nextLook);
    this.#stopping.abort(new Error("the server is stopping"));
    await this.#claiming;
    await Promise.allSettled(this.#running.values());
  }

  #look(): void {
    this.#isWoken = true;
    if (!this.#isClaiming && !this.#stopping.signal.aborted) this.#claiming = this.#claimDue();
  }

  /**
   * The safety net under changes that were announced by another server, or by one that died. At odd times: looked for evenly,
   * what this server puts off for half a second, as all its places are taken, would be due at its own looks only, and never
   * at those of another one that has a place and looks a moment later.
   */
  #lookLater(): void {
    const delayMs = changePollIntervalMs * (0.75 + Math.random() / 2);
    this.#nextLook = setTimeout(() => {
      this.#look();
      this.#lookLater();
    }, delayMs);
  }

  async #claimDue(): Promise<void> {
    const { db, logger } = this.#deps;
    this.#isClaiming = true;
    try {
      // Before anything is claimed whose deadline it may move.
      await this.#noteWork();
      while (this.#isWoken && this.#running.size < reconcileConcurrencyMax && !this.#stopping.signal.aborted) {
        this.#isWoken = false;
        const limit = reconcileConcurrencyMax - this.#running.size;
        const claims = await claim(db, { owner: this.#settings.owner, limit, leaseMs: deploymentLeaseMs });
        for (const one of claims) this.#running.set(one, this.#pass(one));
        // A full hand means there may be more; a short one means that everything due is in work.
        if (claims.length === limit) this.#isWoken = true;
        await sleep(claimPauseMs);
      }
    } catch (error) {
      logger.warn({ error: describeError(error) }, "claiming deployments failed");
    } finally {
      this.#isClaiming = false;
    }
  }

  async #noteWork(): Promise<void> {
    const { db, logger } = this.#deps;
    const nowMs = performance.now();
    if (nowMs - this.#notedAtMs < activityIntervalMs) return;
    const pauseMs = await recordServerActivity(db);
    this.#notedAtMs = nowMs;
    const seconds = Math.round(pauseMs / 1_000);
    if (seconds > 0) logger.info({ seconds }, "no server worked for a while: deadlines are so much later");
  }

  async #pass(one: Claim): Promise<void> {
    const { db, logger } = this.#deps;
    const began = performance.now();
    const { signal, letGo } = this.#passSignal();
    const key = { deploymentId: one.deploymentId, owner: this.#settings.owner, generation: one.generation };
    try {
      // Claimed as the server was told to stop.
      this.#stopping.signal.throwIfAborted();
      const outcome = await reconcileDeployment(this.#deps, one.deploymentId, signal);
      const durationMs = performance.now() - began;
      await this.#settle(key, outcome, durationMs);
      this.#metrics.passes.inc({ outcome: outcome.kind });
      this.#metrics.passSeconds.observe(durationMs / 1_000);
    } catch (error) {
      this.#metrics.passes.inc({ outcome: "failed" });
      const ids = { deployment_id: one.deploymentId, ...traceOfError(error) };
      const fields = { ...ids, attempts: one.attempts, error: describeError(error) };
      if (!this.#stopping.signal.aborted) logger.error(fields, "reconcile pass failed");
      const failure = { ...key, because: describeError(error), durationMs: performance.now() - began };
      // A database that was away for a moment is told then; after one that stays away, the lease has run out.
      const end = { forMs: deploymentLeaseMs, signal: this.#stopping.signal };
      await tryAgain(() => failPass(db, failure), end).catch(() => false);
    } finally {
      letGo();
      this.#running.delete(one);
      this.#look();
    }
  }

  /** Not AbortSignal.timeout: that of a pass long ended would keep it in memory, and fire, 90 s later. */
  #passSignal(): { signal: AbortSignal; letGo: () => void } {
    const ending = new AbortController();
    const stopping = this.#stopping.signal;
    const end = () => ending.abort(stopping.reason ?? new DOMException("the pass took too long", "TimeoutError"));
    const timer = setTimeout(end, passTimeoutMs);
    stopping.addEventListener("abort", end, { once: true });
    const letGo = () => {
      clearTimeout(timer);
      stopping.removeEventListener("abort", end);
    };
    return { signal: ending.signal, letGo };
  }

  async #settle(key: Omit<Claim, "attempts"> & { owner: string }, outcome: Outcome, durationMs: number): Promise<void> {
    const { db } = this.#deps;
    if (outcome.kind === "converged" && outcome.isGone) return dropFromQueue(db, key);
    const { kind, because } = outcome;
    const retryAt = outcome.kind === "waiting" ? outcome.retryAt : null;
    const isSettled = await settlePass(db, { ...key, outcome: { kind, because, durationMs }, retryAt });
    // Steps of this pass announced nothing, as it was to look again itself.
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
    // A database that is away says nothing of listeners either; that claims fail is told already.
    if (
      !(await this.#noteWork().then(
        () => true,
        () => false,
      ))
    )
      return;
    await watchListeners(this.#deps);
    if ((await resync(this.#deps, this.#metrics)) > 0) this.#look();
  }
}
