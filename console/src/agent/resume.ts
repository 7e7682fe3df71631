import type { Interrupt, Run, Thread, ThreadState } from "./types.ts";

/** Returns the assistant that ran a thread last. */
export const assistantIdOf = (thread: Thread | undefined, runs: readonly Run[] | undefined): string | undefined =>
  [runs?.[0]?.assistant_id, thread?.metadata?.["assistant_id"]].find((id) => typeof id === "string");

/** Returns the questions that a state waits for. */
export const interruptsOf = (state: ThreadState | undefined): Interrupt[] =>
  (state?.tasks ?? []).flatMap(({ interrupts }) => interrupts ?? []);

/** Returns the command that answers one of several questions. With one question, its answer is the whole command. */
export function resumeCommand(
  interrupt: Interrupt,
  all: readonly Interrupt[],
  answer: unknown,
): Record<string, unknown> {
  const isOneOfMany = all.length > 1 && interrupt.id !== undefined;
  // By default some servers queue the second of two answers, and give it to the next question.
  const strategy = { multitask_strategy: "reject" };
  return { ...strategy, command: { resume: isOneOfMany ? { [interrupt.id as string]: answer } : answer } };
}

/**
 * Returns the body of a run that begins at the newest checkpoint of its thread. LangGraph.js keeps the checkpoint of a run that
 * began at an earlier one as the thread's own, and would begin every later run there again.
 */
export function fromNewest(thread: Thread | undefined, payload: Record<string, unknown>): Record<string, unknown> {
  const isKept = (thread?.config?.configurable?.checkpoint_id ?? null) !== null;
  if (!isKept || payload["checkpoint"] !== undefined) return payload;
  const config = payload["config"] as { configurable?: object } | undefined;
  return { ...payload, config: { ...config, configurable: { ...config?.configurable, checkpoint_id: null } } };
}
