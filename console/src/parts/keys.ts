import { useEffect, useRef } from "react";

/** Elements in which a key press is text input. */
const typedInto =
  "input:not([type=checkbox], [type=radio]), textarea, select, [role=dialog] *, [role=menu], [role=menu] *";

const kept = "pierhead.keys";

/** Returns whether single keys act. Users of speech input switch them off (WCAG 2.1.4). */
export const areKeysOn = (): boolean => localStorage.getItem(kept) !== "off";

export function switchKeys(isOn: boolean): void {
  if (isOn) localStorage.removeItem(kept);
  else localStorage.setItem(kept, "off");
}

/** Returns whether a key press is for something else: text, the browser, or an open dialog. */
function isOther(event: KeyboardEvent): boolean {
  const isTyping = event.target instanceof Element && event.target.matches(typedInto);
  if (event.defaultPrevented || isTyping || event.ctrlKey || event.metaKey || event.altKey) return true;
  return !areKeysOn() || document.querySelector("[role=dialog]") !== null;
}

/** The time in which the second key of a pair counts. */
const pairMs = 1_000;

/**
 * Binds keys of a page, such as `j`, or two keys after each other, such as `g d`. They do nothing while the user types, while a
 * dialog is open, or when the user has switched them off.
 */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    let first = { key: "", atMs: 0 };
    const onKey = (event: KeyboardEvent) => {
      if (isOther(event)) return;
      const isPair = first.key !== "" && performance.now() - first.atMs < pairMs;
      const name = isPair ? `${first.key} ${event.key}` : event.key;
      first = { key: "", atMs: 0 };
      const act = Object.hasOwn(latest.current, name) ? latest.current[name] : undefined;
      if (act !== undefined) {
        event.preventDefault();
        act();
      } else if (Object.keys(latest.current).some((one) => one.startsWith(`${event.key} `))) {
        first = { key: event.key, atMs: performance.now() };
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
