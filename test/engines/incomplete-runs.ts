import type { Started } from "./expectations.ts";
import type { Replica, Step } from "./replicas.ts";

export interface Hit {
  /** Its name. */
  fault: string;
  number: number;
  /** The replica; undefined if the fault hits all. */
  pid: number | undefined;
  /** In milliseconds. */
  from: number;
  until: number;
}

/** So many lines of each replica's log are shown for a run. */
const linesMax = 6;

/** Describes runs that did not end as they should: how they ended, their last step, the faults that hit them, and what replicas logged. */
export function describeIncomplete(
  incomplete: { run: Started; why: string }[],
  steps: Step[],
  hits: Hit[],
  replicas: Replica[],
): string[] {
  return incomplete.flatMap(({ run: { run_id }, why }) => {
    const mine = steps.filter((step) => step.run_id === run_id);
    const { event, step, pid, at } = mine.at(-1) ?? {};
    const last = event === undefined ? "no step" : `${event} of step ${step} in process ${pid} at ${at}`;
    const found = hits
      .filter((hit) => isHit(mine, hit))
      .map(({ fault, number, from }) => `${fault} ${number} at ${from}`);
    const lines = replicas.flatMap((replica) => {
      const all = replica.log().split("\n");
      return all
        .filter((line) => line.includes(run_id) && /error|warn|fail|lost|lease/i.test(line))
        .slice(-linesMax)
        .map((line) => `    ${replica.process.pid}: ${line.slice(0, 4_000)}`);
    });
    return [`run ${run_id}: ${why}; last ${last}; hit by ${found.join(", ") || "nothing"}`, ...lines];
  });
}

/** Whether a run was in progress where the fault was. */
function isHit(steps: Step[], { pid, from, until }: Hit): boolean {
  const isThere = (step: Step) => pid === undefined || step.pid === pid;
  const before = steps.findLast(({ at }) => at <= from);
  const wasThere = before !== undefined && isThere(before) && before !== steps.at(-1);
  return wasThere || steps.some((step) => step.at > from && step.at <= until && isThere(step));
}
