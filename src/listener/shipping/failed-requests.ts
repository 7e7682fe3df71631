import { RateLimiter } from "../../base/rate-limiter.ts";
import type { FailedRequest } from "../../gateway/route.ts";

/** A server that fails each request must not push its own log out of view. The metrics count all failures. */
const linesOfDeployment = { perS: 10, burst: 50 };

export interface FailedRequestLine {
  subject: Pick<FailedRequest, "deploymentId" | "revisionId"> & { replicaId: string };
  key: string;
  message: string;
}

/** Turns requests that failed into lines of the log of their deployment, so that the `x-request-id` of an answer leads to them. */
export class FailedRequestLines {
  readonly #rates = new RateLimiter(linesOfDeployment);
  #count = 0;

  /**
   * Returns the line about a failed request; null: the deployment has had too many of them.
   * @param nowMs epoch time of the line, in milliseconds
   */
  lineOf(failed: FailedRequest, nowMs: number): FailedRequestLine | null {
    const { deploymentId, revisionId, replicaId } = failed;
    if (this.#rates.take(deploymentId) > 0) return null;
    this.#count += 1;
    // Clients choose their request ids, so an id may come twice.
    const key = `request:${nowMs}:${this.#count}:${failed.requestId}`;
    return { subject: { deploymentId, revisionId, replicaId: replicaId ?? "gateway" }, key, message: describe(failed) };
  }
}

const pathMax = 200;

/** Leaves the query of the path out, because it may contain secrets. */
function describe({ method, path, status, end, durationMs, requestId }: FailedRequest): string {
  const [bare = ""] = path.split("?", 1);
  const shown = bare.length > pathMax ? `${bare.slice(0, pathMax)}…` : bare;
  const what = `${method} ${shown}`;
  const after = `after ${Math.round(durationMs)} ms, x-request-id ${requestId}`;
  if (end === "cut") return `The answer to ${what} with status ${status} broke off ${after}`;
  if (end === "stopped") return `Pierhead broke off the answer to ${what} with status ${status} ${after}`;
  return end === "refused"
    ? `Pierhead answered ${what} with ${status} ${after}`
    : `${what} answered ${status} ${after}`;
}
