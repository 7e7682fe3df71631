import { modelsIn, nameOfRun } from "./name-run.ts";
import { timelineOf } from "./timeline.ts";
import { authorOf, type Message, messagesIn, type Run, type ThreadState, textOfMessage, type Values } from "./types.ts";

/** What one run did, as far as its checkpoints say. */
export interface RunFacts {
  run: Run;
  /** What it was started with. */
  name: string;
  models: string[];
  tookMs: number | null;
  nodes: { name: string; tookMs: number | null }[];
  /** The last text of the agent. */
  answer: string | null;
  tokens: number;
  /** The state at its end. */
  values: Values;
}

/** Returns what a run did. `history` holds the checkpoints of all runs of the thread, the newest first. */
export function factsOf(run: Run, history: readonly ThreadState[]): RunFacts {
  const own = history.filter(({ metadata }) => metadata?.run_id === run.run_id).toReversed();
  const ms = Date.parse(run.updated_at ?? "") - Date.parse(run.created_at ?? "");
  const last = own.at(-1);
  const messages = newIn(messagesIn(own[0]?.values), messagesIn(last?.values));
  const nodes = timelineOf(own).flatMap((entry) =>
    entry.kind === "node" ? [{ name: entry.name, tookMs: entry.tookMs }] : [],
  );
  const said = messages.findLast((message) => authorOf(message) === "ai" && textOfMessage(message) !== "");
  return {
    ...{ run, nodes, values: last?.values ?? {} },
    ...{ name: nameOfRun(run, messages), models: modelsIn(messages) },
    tookMs: Number.isFinite(ms) && ms >= 0 ? ms : null,
    answer: said === undefined ? null : textOfMessage(said),
    tokens: messages.reduce((sum, { usage_metadata }) => sum + (usage_metadata?.total_tokens ?? 0), 0),
  };
}

const newIn = (before: readonly Message[], after: readonly Message[]) => after.slice(before.length);

/** Returns the keys whose values differ at the ends of two runs. Messages are compared by their answers. */
export function differingKeys(a: RunFacts, b: RunFacts): string[] {
  const keys = new Set([...Object.keys(a.values), ...Object.keys(b.values)]);
  keys.delete("messages");
  return [...keys].filter((key) => JSON.stringify(a.values[key]) !== JSON.stringify(b.values[key])).sort();
}

/** A run in the address of a comparison: its id, behind the id of its thread if that is another one. */
export interface RunName {
  threadId: string | null;
  runId: string;
}

export function runNamesIn(compare: string): RunName[] {
  return compare.split(",").flatMap((name) => {
    const [first = "", second] = name.split(":");
    if (first === "") return [];
    return [second === undefined ? { threadId: null, runId: first } : { threadId: first, runId: second }];
  });
}
