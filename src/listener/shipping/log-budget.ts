import type { ReplicaLogChunk } from "../../compute/compute.ts";

type Line = ReplicaLogChunk["lines"][number];

/** Token bucket for the log lines of one replica: one token per line. */
export interface LineBudget {
  tokens: number;
  filledAtMs: number;
  /** Lines dropped since the last accepted one, and the first of them. */
  dropped: number;
  firstDropped: Line | null;
}

/** Sustained rate. An agent server that logs every token it streams writes some hundred lines a second. */
const linesPerSecondMax = 2_000;

/** Burst, for example a stack trace or the configuration at start. */
const linesBurstMax = 10_000;

export const newLineBudget = (nowMs: number): LineBudget => {
  return { tokens: linesBurstMax, filledAtMs: nowMs, dropped: 0, firstDropped: null };
};

/** Returns the lines within the replica's budget. Drops the others and adds one line with their number. */
export function withinBudget(budget: LineBudget, lines: Line[], nowMs: number): Line[] {
  const earned = ((nowMs - budget.filledAtMs) / 1_000) * linesPerSecondMax;
  budget.tokens = Math.min(linesBurstMax, budget.tokens + Math.max(0, earned));
  budget.filledAtMs = nowMs;
  // Report the drops of a flood once and not hundreds of times: wait until the budget for half a second is available.
  const isFlooding = budget.dropped > 0 && budget.tokens < linesPerSecondMax / 2 && lines.length > 0;
  const allowed = isFlooding ? 0 : Math.floor(budget.tokens);
  const accepted = lines.slice(0, allowed);
  budget.tokens -= accepted.length;
  const notice = accepted.length > 0 || lines.length === 0 ? takeDroppedNotice(budget, nowMs) : [];
  for (const line of lines.slice(allowed)) {
    budget.firstDropped ??= line;
    budget.dropped += 1;
  }
  return [...notice, ...accepted];
}

function takeDroppedNotice(budget: LineBudget, nowMs: number): Line[] {
  const { dropped, firstDropped } = budget;
  if (firstDropped === null) return [];
  budget.dropped = 0;
  budget.firstDropped = null;
  const message = `${dropped} lines dropped: this replica writes more than ${linesPerSecondMax} lines per second.`;
  const line: Line = {
    ...firstDropped,
    key: `${firstDropped.key}:dropped`,
    timestamp: new Date(nowMs),
    level: "WARNING",
    message,
  };
  return [line];
}
