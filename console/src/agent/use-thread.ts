import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { backOff } from "./back-off.ts";
import { type Agent, AgentError, segment } from "./client.ts";
import { listOf, type Run, statesIn, type Thread } from "./types.ts";

export const historyMax = 100;
const pace = backOff<Partial<Thread>>(4_000, 60_000, ({ status }) => status === "busy");

/** Reads one thread: its state, the checkpoints that led there, and its runs. */
export function useThread(agent: Agent, deploymentId: string, threadId: string | undefined) {
  const base = `/threads/${segment(threadId ?? "")}`;
  const key = ["agent", deploymentId, "thread", threadId];
  const isChosen = threadId !== undefined;
  const thread = useQuery({
    queryKey: [...key, "thread"],
    queryFn: async ({ signal }) => ({
      thread_id: threadId ?? "",
      ...(await agent.call<Partial<Thread>>("GET", base, undefined, signal)),
    }),
    enabled: isChosen,
    refetchInterval: (query) => (isGone(query.state.error) ? false : pace(query)),
  });
  const history = useQuery({
    queryKey: [...key, "history"],
    queryFn: async ({ signal }) => statesIn(await agent.call("POST", `${base}/history`, { limit: historyMax }, signal)),
    enabled: isChosen,
  });
  const runs = useQuery({
    queryKey: [...key, "runs"],
    queryFn: async ({ signal }) => listOf<Run>(await agent.call("GET", `${base}/runs?limit=50`, undefined, signal)),
    enabled: isChosen,
  });
  // Another client may go on with the thread.
  const changedAt = `${thread.data?.updated_at} ${thread.data?.status}`;
  const seen = useRef<string | null>(null);
  useEffect(() => {
    if (thread.data === undefined || seen.current === changedAt) return;
    const isFirst = seen.current === null;
    seen.current = changedAt;
    if (isFirst) return;
    void history.refetch();
    void runs.refetch();
  }, [changedAt, thread.data, history.refetch, runs.refetch]);
  return { thread, history, runs };
}

export const isGone = (error: unknown) => error instanceof AgentError && error.status === 404;

/** Returns whether a thread cannot be shown. One that is shown outlives a failed poll, with what the user typed there. */
export const isLost = ({ error, data }: { error: unknown; data: unknown }): boolean =>
  error !== null && (data === undefined || isGone(error));
