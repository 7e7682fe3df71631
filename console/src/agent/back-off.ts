/** The parts of a cached query that tell whether its last answer brought anything new. Equal answers keep their identity. */
interface Polled {
  state: { data: unknown; dataUpdateCount: number };
}

interface Pace {
  data: unknown;
  answers: number;
  ms: number;
  shownAtMs: number;
}

/** When this page last came to the front. */
let shownAtMs = 0;
globalThis.document?.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") shownAtMs = Date.now();
});

/**
 * Returns the `refetchInterval` of a query that asks an agent. Agents report no events and log every request, so the interval
 * doubles with each answer that brings nothing new, up to `maxMs`. It starts again at `firstMs` with a change, and when the
 * page comes to the front. TanStack Query asks nothing while the page is in the background.
 *
 * @param isChanging says of the data that a change is near, such as a run that goes on. The interval then stays at `firstMs`.
 */
export function backOff<T>(firstMs: number, maxMs: number, isChanging: (data: T) => boolean = () => false) {
  const paces = new WeakMap<object, Pace>();
  return (query: Polled): number => {
    const { data, dataUpdateCount: answers } = query.state;
    const before = paces.get(query);
    if (before !== undefined && before.answers === answers && before.shownAtMs === shownAtMs) return before.ms;
    const isNew = before === undefined || before.data !== data || before.shownAtMs !== shownAtMs;
    const ms = isNew || (data !== undefined && isChanging(data as T)) ? firstMs : Math.min(maxMs, before.ms * 2);
    paces.set(query, { data, answers, ms, shownAtMs });
    return ms;
  };
}
