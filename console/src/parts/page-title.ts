import { useEffect } from "react";

/** Sets the title of the browser's tab, the most specific part first: `Logs · support-agent · Pierhead`. */
export function usePageTitle(...parts: (string | undefined)[]): void {
  const title = [...parts.filter(Boolean), "Pierhead"].join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}
