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
