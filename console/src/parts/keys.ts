import { useEffect, useRef } from "react";

/** Where a letter is a letter. */
const typedInto = "input:not([type=checkbox]):not([type=radio]), textarea, select, dialog *";

/** Single keys of a page, which do nothing while one types or a dialog is open. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const act = Object.hasOwn(latest.current, event.key) ? latest.current[event.key] : undefined;
      const isTyping = event.target instanceof Element && event.target.matches(typedInto);
      if (act === undefined || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector("dialog[open]") !== null) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
