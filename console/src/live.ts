import { useEffect, useRef, useSyncExternalStore } from "react";
import type { Event } from "../../src/contract/logs/event.ts";
import { queries } from "./server.ts";
import { useSession } from "./session.tsx";
import { useIsShown } from "./shown.ts";

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

/** One stream of the workspace's events while the page is shown; what they concern is read again. */
export function useWorkspaceEvents(): void {
  const { client, workspaceId } = useSession();
  const isShown = useIsShown();
  const hasMissed = useRef(false);
  useEffect(() => {
    if (workspaceId === "") return;
    if (!isShown) {
      hasMissed.current = true;
      return;
    }
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
    const watch = async () => {
      for await (const watched of client.watchEvents({}, ending.signal)) {
        setLive(watched.kind !== "lost");
        if (watched.kind === "lost") continue;
        if (watched.kind === "event") note(watched.event);
        // A watch that was given up does not know its place: the one after it is told nothing of what was between.
        if (watched.kind === "reset" || hasMissed.current) readAnew();
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
  }, [client, workspaceId, isShown]);
}
