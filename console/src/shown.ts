import { useSyncExternalStore } from "react";

/**
 * Whether somebody can see this page. Without TLS a browser has six connections to a server for all of its tabs: one that
 * is in the background holds none open, or the seventh stream would stop every tab.
 */
export function useIsShown(): boolean {
  return useSyncExternalStore(
    (tell) => {
      document.addEventListener("visibilitychange", tell);
      return () => document.removeEventListener("visibilitychange", tell);
    },
    () => document.visibilityState === "visible",
  );
}
