import { AsyncLocalStorage } from "node:async_hooks";

/**
 * What a span says. Ids, outcomes and words of ours: never a text that a tenant, another program or an exception wrote.
 * A name without a dot is ours and goes out with `pierhead.` before it.
 */
export type Attributes = Record<string, string | number | boolean | null | undefined>;

/** One step of one trace, while it goes on. */
export interface Span {
  readonly traceId: string;
  /** W3C `traceparent`: whoever is given it goes on under this span, in this process or in another one. */
  readonly traceparent: string;
  readonly hasEnded: boolean;
  /** A step of this one. */
  begin(name: string, attributes?: Attributes, startedAt?: Date): Span;
  set(attributes: Attributes): void;
  /** It did not do what it was to do. @param cause a stable word. */
  fail(cause: string): void;
  end(endedAt?: Date): void;
}

/** Where spans go. There is one per server: tests run several in one process. */
export interface Traces {
  /**
   * @param parent `traceparent` of what this belongs to; null, or one that is none: a trace begins here.
   * @param kind `server`: somebody else asked for it.
   */
  begin(name: string, parent: string | null, attributes?: Attributes, kind?: "internal" | "server"): Span;
  /** Sends what is left, for two seconds at most. */
  close(): Promise<void>;
}

const active = new AsyncLocalStorage<Span | undefined>();

/** The span that this is done in. One that has ended is none, though what it began goes on. */
export function activeSpan(): Span | undefined {
  const span = active.getStore();
  return span?.hasEnded === false ? span : undefined;
}

/** Runs `act` as a step of what goes on here. Outside of any span it is simply run. */
export function withSpan<T>(name: string, attributes: Attributes, act: (span?: Span) => Promise<T>): Promise<T> {
  const parent = activeSpan();
  return parent === undefined ? act() : inSpan(parent.begin(name, attributes), act);
}

/** Runs `act` in a trace of its own; without `traces` it is simply run. */
export function withTrace<T>(
  traces: Traces | null,
  name: string,
  attributes: Attributes,
  act: () => Promise<T>,
): Promise<T> {
  return traces === null ? act() : inSpan(traces.begin(name, null, attributes), act);
}

/** Runs `act` in a span and ends it; what is thrown marks it. */
export async function inSpan<T>(span: Span, act: (span: Span) => Promise<T>): Promise<T> {
  try {
    return await active.run(span, () => act(span));
  } catch (error) {
    span.fail(causeOf(error));
    if (error instanceof Error && !origins.has(error)) origins.set(error, span.traceId);
    throw error;
  } finally {
    span.end();
  }
}

/** Runs `act` in a span that somebody else ends. */
export function within<T>(span: Span | undefined, act: () => T): T {
  return span === undefined ? act() : active.run(span, act);
}

/** Runs what is no part of the step around it, such as waking somebody else. */
export function outsideSpans<T>(act: () => T): T {
  return active.getStore() === undefined ? act() : active.run(undefined, act);
}

/** In which trace an error came up, for a log line that is written further out. */
const origins = new WeakMap<Error, string>();

/** Field of such a log line. */
export function traceOfError(error: unknown): { trace_id?: string } {
  const traceId = error instanceof Error ? origins.get(error) : undefined;
  return traceId === undefined ? {} : { trace_id: traceId };
}

/** Field of a log line. */
export const traceFields = (span: Span | undefined): { trace_id?: string } =>
  span === undefined ? {} : { trace_id: span.traceId };

/** A code or a name; the text of an error may hold anything, and stands in the log line with this trace's id. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return "Unknown";
  const { code } = error as { code?: unknown };
  return typeof code === "string" && /^[\w.-]{1,64}$/.test(code) ? code : error.name;
}

/** @returns undefined for what is none (W3C Trace Context, 3.2: ids of zeros and version ff are not valid). */
export function parseTraceparent(text: unknown): { traceId: string; spanId: string; isSampled: boolean } | undefined {
  const found = typeof text === "string" ? traceparentPattern.exec(text) : null;
  if (found === null) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = found;
  const isValid = version !== "ff" && !/^0+$/.test(traceId) && !/^0+$/.test(spanId);
  if (!isValid || (version === "00" && rest !== undefined)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

const traceparentPattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
