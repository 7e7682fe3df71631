import { checkpointIdOf, type Message, messagesIn, type Task, type ThreadState, type Values } from "./types.ts";

/** One thing that happened in a thread, in order. */
export type Entry =
  | { kind: "run"; key: string; number: number; at: string | null }
  | { kind: "message"; key: string; message: Message }
  | {
      kind: "node";
      key: string;
      name: string;
      tookMs: number | null;
      changed: Values;
      checkpointId: string | undefined;
      /** Namespace of the checkpoints of the graph inside this node. null: the node has no such checkpoints. */
      inside: string | null;
    }
  | { kind: "waiting"; key: string; name: string; task: Task }
  | { kind: "error"; key: string; name: string; text: string };

/** Returns the checkpoints that led to the newest one, the oldest first. A history also holds those of other forks. */
export function lineageOf(history: readonly ThreadState[]): ThreadState[] {
  const byId = new Map(history.map((state) => [checkpointIdOf(state), state]));
  const found: ThreadState[] = [];
  let at: ThreadState | undefined = history[0];
  while (at !== undefined && !found.includes(at)) {
    found.push(at);
    at = at.parent_checkpoint?.checkpoint_id === undefined ? undefined : byId.get(at.parent_checkpoint.checkpoint_id);
  }
  // Some servers name no parents: then every checkpoint counts.
  return (found.length === 1 ? [...history] : found).reverse();
}

/** Returns what happened, from the checkpoints of a thread in order. */
export function timelineOf(states: readonly ThreadState[]): Entry[] {
  const entries: Entry[] = [];
  let runs = 0;
  states.forEach((state, index) => {
    const before = states[index - 1];
    const id = checkpointIdOf(state) ?? String(index);
    if (state.metadata?.source === "input") {
      runs += 1;
      entries.push({ kind: "run", key: `${id}-run`, number: runs, at: state.created_at ?? null });
    } else if (before !== undefined) {
      const changed = changesBetween(before.values, state.values);
      const names = (before.next ?? []).filter((name) => !name.startsWith("__"));
      for (const name of new Set(names)) {
        const tookMs = msBetween(before.created_at, state.created_at);
        entries.push({
          kind: "node",
          key: `${id}-${name}`,
          name,
          tookMs,
          changed,
          checkpointId: checkpointIdOf(before),
          inside: before.tasks?.find((task) => task.name === name)?.checkpoint?.checkpoint_ns || null,
        });
      }
    }
    newMessages(before?.values, state.values).forEach((message, at) => {
      entries.push({ kind: "message", key: message.id ?? `${id}-m${at}`, message });
    });
  });
  for (const task of states.at(-1)?.tasks ?? []) {
    if ((task.interrupts ?? []).length > 0) entries.push({ kind: "waiting", key: task.id, name: task.name, task });
    else if (task.error != null)
      entries.push({ kind: "error", key: task.id, name: task.name, text: errorText(task.error) });
  }
  return entries;
}

/** Returns the keys of a state that differ from the state before. */
export function changesBetween(before: Values | null | undefined, after: Values | null | undefined): Values {
  const entries = Object.entries(after ?? {}).filter(
    ([key, value]) => JSON.stringify(value) !== JSON.stringify(before?.[key]),
  );
  return Object.fromEntries(
    entries.map(([key, value]) => [key, key === "messages" ? newMessages(before, after) : value]),
  );
}

function newMessages(before: Values | null | undefined, after: Values | null | undefined): Message[] {
  const known = messagesIn(before);
  const ids = new Set(known.map(({ id }) => id));
  return messagesIn(after).filter(({ id }, at) => (id === undefined ? at >= known.length : !ids.has(id)));
}

function msBetween(from: string | null | undefined, to: string | null | undefined): number | null {
  const ms = Date.parse(to ?? "") - Date.parse(from ?? "");
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}

function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function errorText(error: unknown): string {
  if (typeof error === "string") {
    // LangGraph.js writes the error as JSON into a text.
    const parsed = error.startsWith("{") ? parsedOrNull(error) : null;
    return parsed === null ? error : errorText(parsed);
  }
  const { message } = (error ?? {}) as { message?: unknown };
  return typeof message === "string" ? message : JSON.stringify(error);
}

/** Returns a duration such as `212 ms`, `1.2 s` or `3 min`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}
