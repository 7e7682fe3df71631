import { AsyncLocalStorage } from "node:async_hooks";

/**
 * The attributes of a span: ids, outcomes and fixed words, never a text from a tenant, another program or an exception. A
 * name without a dot gets the prefix `pierhead.`.
 */
export type Attributes = Record<string, string | number | boolean | null | undefined>;

/** A step of a trace that is in progress. */
export interface Span {
  readonly traceId: string;
  /** W3C `traceparent`: its receiver continues the trace under this span, in this process or another one. */
  readonly traceparent: string;
  readonly hasEnded: boolean;
  /** Starts a child span. */
  begin(name: string, attributes?: Attributes, startedAt?: Date): Span;
  set(attributes: Attributes): void;
  /** Marks the span as failed. @param cause a stable word. */
  fail(cause: string): void;
  end(endedAt?: Date): void;
}

/** The destination of spans. There is one per server, because tests run several servers in one process. */
export interface Traces {
  /**
   * Starts a span.
   * @param parent `traceparent` of the parent; null or an invalid one starts a new trace.
   * @param kind `server` for requests from another program.
   */
  begin(name: string, parent: string | null, attributes?: Attributes, kind?: "internal" | "server"): Span;
  /** Sends the remaining spans, for two seconds at most. */
  close(): Promise<void>;
}

const active = new AsyncLocalStorage<Span | undefined>();

/** Returns the current span; undefined once it has ended, even for work that it started. */
export function activeSpan(): Span | undefined {
  const span = active.getStore();
  return span?.hasEnded === false ? span : undefined;
}

/** Runs `act` in a child of the current span. Outside of any span it just runs it. */
export function withSpan<T>(name: string, attributes: Attributes, act: (span?: Span) => Promise<T>): Promise<T> {
  const parent = activeSpan();
  return parent === undefined ? act() : inSpan(parent.begin(name, attributes), act);
}

/** Runs `act` in a new trace; without `traces` it just runs it. */
export function withTrace<T>(
  traces: Traces | null,
  name: string,
  attributes: Attributes,
  act: () => Promise<T>,
): Promise<T> {
  return traces === null ? act() : inSpan(traces.begin(name, null, attributes), act);
}

/** Runs `act` in a span and ends the span; an error marks it as failed. */
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

/** Runs `act` in a span that another function ends. */
export function within<T>(span: Span | undefined, act: () => T): T {
  return span === undefined ? act() : active.run(span, act);
}

/** Runs `act` outside of the current span, for example to wake subscribers. */
export function outsideSpans<T>(act: () => T): T {
  return active.getStore() === undefined ? act() : active.run(undefined, act);
}

/** The trace in which an error occurred, for a log line that an outer function writes. */
const origins = new WeakMap<Error, string>();

/** Returns the field for such a log line. */
export function traceOfError(error: unknown): { trace_id?: string } {
  const traceId = error instanceof Error ? origins.get(error) : undefined;
  return traceId === undefined ? {} : { trace_id: traceId };
}

/** Returns the field for a log line. */
export const traceFields = (span: Span | undefined): { trace_id?: string } =>
  span === undefined ? {} : { trace_id: span.traceId };

/** Returns a code or a name. The text of an error may contain anything; it is in the log line with this trace's id. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return "Unknown";
  const { code } = error as { code?: unknown };
  return typeof code === "string" && /^[\w.-]{1,64}$/.test(code) ? code : error.name;
}

/** Parses a traceparent. @returns undefined for an invalid one (W3C Trace Context, 3.2: no ids of zeros, no version ff). */
export function parseTraceparent(text: unknown): { traceId: string; spanId: string; isSampled: boolean } | undefined {
  const found = typeof text === "string" ? traceparentPattern.exec(text) : null;
  if (found === null) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = found;
  const isValid = version !== "ff" && !/^0+$/.test(traceId) && !/^0+$/.test(spanId);
  if (!isValid || (version === "00" && rest !== undefined)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

const traceparentPattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
