import type { Client } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { harmless } from "../terminal/terminal.ts";

/** Failures of an agent's requests and runs in the last minutes. The listener reports them once a minute, so the newest may be missing. */
export interface RecentFailures {
  minutes: number;
  requests: number;
  /** Answers with status 500 or above, and answers that broke off. */
  failed_requests: number;
  /** null: the server does not count runs. */
  failed_runs: number | null;
}

export const recentMinutes = 15;

/** Returns the failures of the last minutes; null: the server has no measurements or is too old to answer. */
export async function readRecent(
  client: Client,
  { id }: Deployment,
  signal: AbortSignal,
): Promise<RecentFailures | null> {
  const start_time = new Date(Date.now() - recentMinutes * 60_000).toISOString();
  const query = { deployment_id: id, start_time, step_s: 60 };
  const metrics = await client.readMetrics(query, { signal }).catch(() => null);
  signal.throwIfAborted();
  if (metrics === null) return null;
  const { points } = metrics;
  const sum = (values: number[]) => values.reduce((total, one) => total + one, 0);
  const runs = points.map(({ runs_failed: failed }) => failed).filter((failed) => failed !== null);
  return {
    minutes: recentMinutes,
    requests: sum(points.map(({ requests }) => requests)),
    failed_requests: sum(points.map(({ errors }) => errors)),
    failed_runs: runs.length === 0 ? null : sum(runs),
  };
}

/** Returns what failed in a few lines, with the command that shows the causes. No lines: nothing failed. */
export function describeRecent(
  name: string,
  { requests, failed_requests: failed, failed_runs: runs }: RecentFailures,
): string[] {
  const lines = [
    ...(failed === 0
      ? []
      : [
          `${failed} of ${requests} ${requests === 1 ? "request" : "requests"} failed: status 500 or above, or broken off`,
        ]),
    ...(runs === null || runs === 0 ? [] : [`${runs} ${runs === 1 ? "run" : "runs"} ended with an error`]),
  ];
  if (lines.length === 0) return [];
  return [...lines, `pierhead logs ${harmless(name)} --level ERROR --since ${recentMinutes}m`];
}
