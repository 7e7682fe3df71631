import { useEffect, useSyncExternalStore } from "react";
import type { Event } from "../../src/contract/event.ts";
import { queries } from "./server.ts";
import { useSession } from "./session.tsx";

/** Whether news comes by itself; said at the top of each page. */
let isLive = false;
const watchers = new Set<() => void>();

function setLive(now: boolean): void {
  if (now === isLive) return;
  isLive = now;
  for (const tell of watchers) tell();
}

export function useIsLive(): boolean {
  return useSyncExternalStore(
    (tell) => {
      watchers.add(tell);
      return () => watchers.delete(tell);
    },
    () => isLive,
  );
}

/** Who is signed in is not of the events; without an answer to that, there would be no page. */
const readAnew = () => void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });

/** Many events at once, such as of a mass change, are one renewal. */
const gatherMs = 250;

/** One stream of the workspace's events; what they concern is read again. Held open while the page is in the background. */
export function useWorkspaceEvents(): void {
  const { client, workspaceId } = useSession();
  useEffect(() => {
    if (workspaceId === "") return;
    const ending = new AbortController();
    const touched = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const renew = () => {
      timer = undefined;
      void queries.invalidateQueries({ queryKey: ["deployments"] });
      for (const id of touched) void queries.invalidateQueries({ queryKey: ["deployment", id] });
      touched.clear();
    };
    const note = (event: Event | null) => {
      if (event?.deployment_id) touched.add(event.deployment_id);
      timer ??= setTimeout(renew, gatherMs);
    };
    const watch = async (isAnew: boolean) => {
      for await (const watched of client.watchEvents({}, ending.signal)) {
        setLive(true);
        if (watched.kind === "event") note(watched.event);
        // A watch that was given up does not know its place: the one after it is told nothing of what was between.
        if (watched.kind === "reset" || (watched.kind === "open" && isAnew)) readAnew();
      }
    };
    const keepWatching = async () => {
      for (let isAnew = false; !ending.signal.aborted; isAnew = true) {
        await watch(isAnew).catch(() => {});
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
  }, [client, workspaceId]);
}
