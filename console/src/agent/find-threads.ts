import { type Agent, segment } from "./client.ts";
import { lastOf, type Thread, type ThreadStatus, threadsIn, titleOf } from "./types.ts";

export type Which = "all" | ThreadStatus;

/** Threads that are read, and in which a text is searched. */
export const shownMax = 100;

const idForm = /^[0-9a-f]{8}-[0-9a-f-]{27}$/i;

/** Finds threads by id, by metadata (`key:value`), or among the newest ones by text. */
export async function findThreads(
  agent: Agent,
  asked: { which: Which; search: string; signal: AbortSignal },
): Promise<Thread[]> {
  const { which, search, signal } = asked;
  if (idForm.test(search)) {
    const thread = await agent.call<Thread>("GET", `/threads/${segment(search)}`, undefined, signal).catch(() => null);
    return threadsIn([thread]) ?? [];
  }
  const [, key, value] = /^([\w.-]+):(.+)$/.exec(search) ?? [];
  const metadata = key === undefined ? {} : { [key]: value };
  const body = {
    ...{ limit: shownMax, offset: 0, sort_by: "updated_at", sort_order: "desc", metadata },
    ...(which !== "all" && { status: which }),
  };
  const threads = threadsIn(await agent.call<unknown>("POST", "/threads/search", body, signal)) ?? [];
  // The agent API searches in no text, so the console compares the words.
  const words = key === undefined ? search.toLowerCase() : "";
  return threads.filter((thread) =>
    `${titleOf(thread)} ${lastOf(thread)} ${thread.thread_id}`.toLowerCase().includes(words),
  );
}
