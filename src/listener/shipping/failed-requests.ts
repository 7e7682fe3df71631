import type { FailedRequest } from "../../gateway/route.ts";

/** A server that fails each request must not push its own log out of view: the metrics count all of them. */
const perSecondMax = 10;
const burstMax = 50;

/** Deployments whose rate is remembered. */
const deploymentsMax = 10_000;

interface Budget {
  tokens: number;
  filledAtMs: number;
}

export interface FailedRequestLine {
  subject: Pick<FailedRequest, "deploymentId" | "revisionId"> & { replicaId: string };
  key: string;
  message: string;
}

/** Turns requests that failed into lines of the log of their deployment, so that the `x-request-id` of an answer leads to them. */
export class FailedRequestLines {
  readonly #budgets = new Map<string, Budget>();
  #count = 0;

  /** Returns the line about a failed request; null: the deployment has had too many of them. */
  lineOf(failed: FailedRequest, nowMs: number): FailedRequestLine | null {
    if (!this.#takeToken(failed.deploymentId, nowMs)) return null;
    const { deploymentId, revisionId, replicaId } = failed;
    this.#count += 1;
    // Clients choose their request ids, so an id may come twice.
    const key = `request:${nowMs}:${this.#count}:${failed.requestId}`;
    return { subject: { deploymentId, revisionId, replicaId: replicaId ?? "gateway" }, key, message: describe(failed) };
  }

  #takeToken(deploymentId: string, nowMs: number): boolean {
    if (this.#budgets.size >= deploymentsMax && !this.#budgets.has(deploymentId)) this.#budgets.clear();
    const budget = this.#budgets.get(deploymentId) ?? { tokens: burstMax, filledAtMs: nowMs };
    const earned = (Math.max(0, nowMs - budget.filledAtMs) / 1_000) * perSecondMax;
    budget.tokens = Math.min(burstMax, budget.tokens + earned);
    budget.filledAtMs = nowMs;
    this.#budgets.set(deploymentId, budget);
    if (budget.tokens < 1) return false;
    budget.tokens -= 1;
    return true;
  }
}

const pathMax = 200;

/** The query of a path may have secrets, and is left out. */
function describe({ method, path, status, end, durationMs, requestId }: FailedRequest): string {
  const [bare = ""] = path.split("?", 1);
  const shown = bare.length > pathMax ? `${bare.slice(0, pathMax)}…` : bare;
  const what = `${method} ${shown}`;
  const after = `after ${Math.round(durationMs)} ms, x-request-id ${requestId}`;
  if (end === "cut") return `The answer to ${what} with status ${status} broke off ${after}`;
  return end === "refused"
    ? `Pierhead answered ${what} with ${status} ${after}`
    : `${what} answered ${status} ${after}`;
}
