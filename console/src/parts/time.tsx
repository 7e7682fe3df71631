import { useEffect, useState } from "react";
import { agoText } from "./text.ts";

/** Returns the current time, updated every `everyMs` milliseconds. */
export function useNow(everyMs = 1_000): number {
  const [nowMs, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return nowMs;
}

/** How long ago a time was, with the exact time as a tooltip. */
export function Ago({ at }: { at: string | null }) {
  const nowMs = useNow(10_000);
  if (at === null) return <span className="soft">never</span>;
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {agoText(at, nowMs)}
    </time>
  );
}

/** How long a state has lasted, with its exact start as a tooltip. */
export function Age({ since }: { since: string }) {
  const nowMs = useNow(10_000);
  return (
    <time dateTime={since} title={`Since ${new Date(since).toLocaleString()}`}>
      {agoText(since, nowMs).replace(/ ago$/, "").replace("just now", "1 s")}
    </time>
  );
}
