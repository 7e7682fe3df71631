import { useEffect, useSyncExternalStore } from "react";

/** More are kept than shown, because those that need a look have a list of their own. */
const keptMax = 10;

const watchers = new Set<() => void>();
let cached: { key: string; text: string | null; ids: readonly string[] } = { key: "", text: null, ids: [] };

const keyOf = (owner: string) => `pierhead.recent:${owner}`;

function recentOf(owner: string): readonly string[] {
  const key = keyOf(owner);
  const text = localStorage.getItem(key);
  if (cached.key !== key || cached.text !== text)
    cached = { key, text, ids: (text ?? "").split(",").filter((id) => id !== "") };
  return cached.ids;
}

/** Returns the deployments that this user opened last in this browser, the last one first. */
export function useRecent(owner: string): readonly string[] {
  return useSyncExternalStore(
    (notify) => {
      watchers.add(notify);
      return () => watchers.delete(notify);
    },
    () => recentOf(owner),
  );
}

/** Remembers that the user opened a deployment. */
export function useRemembered(owner: string, id: string): void {
  useEffect(() => {
    const ids = [id, ...recentOf(owner).filter((one) => one !== id)].slice(0, keptMax);
    localStorage.setItem(keyOf(owner), ids.join(","));
    for (const notify of watchers) notify();
  }, [owner, id]);
}
