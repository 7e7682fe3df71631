import type { ReplicaLogChunk } from "../../compute/compute.ts";

type Line = ReplicaLogChunk["lines"][number];

/** Lines one replica may send: a token each. */
export interface LineBudget {
  tokens: number;
  filledAtMs: number;
  /** Lines dropped since the last one that was let through, and the first of them. */
  dropped: number;
  firstDropped: Line | null;
}

/** Sustained; an agent server that traces every token it streams writes some hundred. */
export const linesPerSecondMax = 2_000;

/** A stack trace, a start with a big configuration: at once. */
export const linesBurstMax = 10_000;

export const newLineBudget = (nowMs: number): LineBudget => {
  return { tokens: linesBurstMax, filledAtMs: nowMs, dropped: 0, firstDropped: null };
};

/** Takes the lines that are within a replica's budget. What is not is dropped, and one line says how much that was. */
export function withinBudget(budget: LineBudget, lines: Line[], nowMs: number): Line[] {
  const earned = ((nowMs - budget.filledAtMs) / 1_000) * linesPerSecondMax;
  budget.tokens = Math.min(linesBurstMax, budget.tokens + Math.max(0, earned));
  budget.filledAtMs = nowMs;
  // A flood's drops are notice in one line and not in hundreds: half a second of budget must have come together first.
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
  const message = `${dropped} lines dropped: this replica writes more than ${linesPerSecondMax} lines a second.`;
  const line: Line = {
    ...firstDropped,
    key: `${firstDropped.key}:dropped`,
    timestamp: new Date(nowMs),
    level: "WARNING",
    message,
  };
  return [line];
}
