import { useSyncExternalStore } from "react";

/**
 * Returns whether the page is visible. Without TLS a browser has six connections to a server for all of its tabs, so a tab in
 * the background keeps no stream open. Otherwise a seventh stream would block every tab.
 */
export function useIsVisible(): boolean {
  return useSyncExternalStore(
    (notify) => {
      document.addEventListener("visibilitychange", notify);
      return () => document.removeEventListener("visibilitychange", notify);
    },
    () => document.visibilityState === "visible",
  );
}
