import type { Check, Target } from "./checks.ts";
import { multitask, runs, streams } from "./parity-runs.ts";
import { assistants, meta, store, threads } from "./parity-state.ts";

export const groups: Record<string, Check[]> = { assistants, threads, runs, multitask, streams, store, meta };

export interface Result {
  name: string;
  /** Undefined if the check passed. */
  failure: string | undefined;
}

/** Runs all checks, a few at a time. */
export async function runChecks(target: Target): Promise<Result[]> {
  const checks = Object.entries(groups).flatMap(([group, list]) =>
    list.map(([name, act]) => ({ name: `${group}: ${name}`, act })),
  );
  const results: Result[] = [];
  const queue = [...checks];
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const failure = await next.act(target).then(
        () => undefined,
        (error: Error) => `${error.message}`.split("\n").slice(0, 3).join(" "),
      );
      results.push({ name: next.name, failure });
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return results;
}
