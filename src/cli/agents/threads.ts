import type { Session } from "../session.ts";
import { tableOf } from "../terminal/choose.ts";
import { age, parseWhole } from "../terminal/text.ts";
import { type AgentOptions, openAgent, textOf } from "./agent-api.ts";
import { runsOf } from "./invoke.ts";

interface ListOptions extends AgentOptions {
  limit: string;
}

interface Thread {
  thread_id: string;
  status?: string;
  updated_at?: string;
  values?: { messages?: { content?: unknown }[] } | null;
}

interface Run {
  run_id: string;
  status?: string;
  created_at?: string;
  assistant_id?: string;
}

/** Lists the newest threads of an agent with their last message. */
export async function threads(session: Session, [name = ""]: string[], options: ListOptions): Promise<void> {
  const limit = parseWhole(options.limit);
  const agent = await openAgent(session, name, options);
  const found = await agent.call<Thread[]>("POST", "/threads/search", {
    limit,
    sort_by: "updated_at",
    sort_order: "desc",
  });
  const rows = found.map(({ thread_id, status = "-", updated_at, values }) => {
    const last = textOf(values?.messages?.at(-1)?.content).replace(/\s+/g, " ");
    return [thread_id, status, updated_at === undefined ? "-" : age(updated_at), last.slice(0, 60)];
  });
  session.answer({ deployment: agent.name, threads: found }, () =>
    tableOf(session, ["thread", "status", "age", "last message"], rows),
  );
  if (found.length === 0) session.terminal.say(`${agent.name} has no threads.`);
}

/** Lists the newest runs of a thread. */
export async function runs(
  session: Session,
  [name = "", threadId = ""]: string[],
  options: ListOptions,
): Promise<void> {
  const limit = parseWhole(options.limit);
  const agent = await openAgent(session, name, options);
  const found = await agent.call<Run[]>("GET", runsOf(threadId, `?limit=${limit}`));
  const rows = found.map(({ run_id, status = "-", created_at, assistant_id = "-" }) => [
    ...[run_id, status, created_at === undefined ? "-" : age(created_at), assistant_id],
  ]);
  session.answer({ deployment: agent.name, runs: found }, () =>
    tableOf(session, ["run", "status", "age", "assistant"], rows),
  );
  if (found.length === 0) session.terminal.say("This thread has no runs.");
}
