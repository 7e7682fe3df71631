import { type EventLoopUtilization, performance } from "node:perf_hooks";
import { runInNewContext } from "node:vm";

/** V8's memory reducer needs about 10 s per run. */
const checkIntervalMs = 30_000;

/** Event loop utilization since the last check at or below which the burst counts as over. */
const idleUtilizationMax = 0.25;

/** Growth above the last idle size that is worth a reduction. Smaller changes are noise. */
const growthBytesMin = 16 * 1024 * 1024;

/**
 * Returns memory to the operating system after a burst. V8 collects in proportion to allocation, so hardly at all when idle,
 * and keeps the pages that it has freed: after the rollouts of 10,000 deployments a server stayed at 380 MB. Dropping a
 * `node:vm` context starts V8's memory reducer, which collects in small steps and returns freed pages (decision 0046).
 * Bench line: "memory of a control plane with 10000 settled deployments" in bench/results.md.
 */
export class MemoryReleaser {
  readonly #timer: NodeJS.Timeout;
  #lastCheck: EventLoopUtilization = performance.eventLoopUtilization();
  /** Resident bytes after the last reduction. */
  #idleBytes = 0;
  #isRequested = false;

  constructor(intervalMs: number = checkIntervalMs) {
    this.#timer = setInterval(() => this.#check(), intervalMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, this.#lastCheck);
    this.#lastCheck = now;
    const bytes = process.memoryUsage.rss();
    const isIdle = utilization <= idleUtilizationMax;
    if (isIdle && this.#isRequested) this.#idleBytes = bytes;
    const mayRequest = isIdle && !this.#isRequested && bytes >= this.#idleBytes + growthBytesMin;
    if (mayRequest) runInNewContext("0");
    this.#isRequested = mayRequest;
  }
}
