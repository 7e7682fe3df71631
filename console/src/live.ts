import { useEffect, useRef, useSyncExternalStore } from "react";
import type { Event } from "../../src/contract/logs/event.ts";
import { tell } from "./news.ts";
import { queries } from "./server.ts";
import { useSession } from "./session.tsx";
import { useIsVisible } from "./visibility.ts";

/** Whether the event stream is connected. The top of each page shows it. */
let isLive = false;
const watchers = new Set<() => void>();

function setLive(now: boolean): void {
  if (now === isLive) return;
  isLive = now;
  for (const notify of watchers) notify();
}

export function useIsLive(): boolean {
  return useSyncExternalStore(
    (notify) => {
      watchers.add(notify);
      return () => watchers.delete(notify);
    },
    () => isLive,
  );
}

/** Refetches everything except the session: events do not cover it, and without its data the page would disappear. */
const refetchAll = () => void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });

/** Events within this time, such as those of a bulk change, cause one refetch. */
const batchMs = 250;

/** Watches the workspace's events while the page is visible, and refetches what they concern. */
export function useWorkspaceEvents(): void {
  const { client, workspaceId } = useSession();
  const isVisible = useIsVisible();
  const hasMissed = useRef(false);
  useEffect(() => {
    if (workspaceId === "") return;
    if (!isVisible) {
      hasMissed.current = true;
      return;
    }
    const ending = new AbortController();
    const touched = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refetch = () => {
      timer = undefined;
      void queries.invalidateQueries({ queryKey: ["deployments"] });
      for (const id of touched) void queries.invalidateQueries({ queryKey: ["deployment", id] });
      touched.clear();
    };
    const schedule = (event: Event | null) => {
      if (event?.deployment_id) touched.add(event.deployment_id);
      timer ??= setTimeout(refetch, batchMs);
    };
    const watch = async () => {
      for await (const watched of client.watchEvents({}, ending.signal)) {
        setLive(watched.kind !== "lost");
        if (watched.kind === "lost") continue;
        if (watched.kind === "event") {
          schedule(watched.event);
          tell(watched.event);
        }
        // A new watch starts at the present and misses the events since the previous watch ended.
        if (watched.kind === "reset" || hasMissed.current) refetchAll();
        hasMissed.current = false;
      }
    };
    const keepWatching = async () => {
      while (!ending.signal.aborted) {
        await watch().catch(() => {});
        hasMissed.current = true;
        setLive(false);
        await new Promise((resolve) => setTimeout(resolve, 2_000));
      }
    };
    void keepWatching();
    return () => {
      ending.abort();
      clearTimeout(timer);
      setLive(false);
    };
  }, [client, workspaceId, isVisible]);
}
