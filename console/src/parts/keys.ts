import { useEffect, useRef } from "react";

/** Elements in which a key press is text input. */
const typedInto = "input:not([type=checkbox]):not([type=radio]), textarea, select, [role=dialog] *, [role=menu] *";

/** Binds single keys of a page. They do nothing while the user types or a dialog is open. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const act = Object.hasOwn(latest.current, event.key) ? latest.current[event.key] : undefined;
      const isTyping = event.target instanceof Element && event.target.matches(typedInto);
      if (act === undefined || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector("[role=dialog]") !== null) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
