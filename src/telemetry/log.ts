import { type DestinationStream, type Logger, pino } from "pino";
import { standardError } from "./standard-error.ts";
import { activeSpan, traceFields } from "./traces.ts";

export type { Logger };

/** Levels an operator can choose (`PIERHEAD_LOG_LEVEL`). */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/**
 * The program's own log: one JSON line an event on stderr, a constant lower-case message, everything that varies in
 * fields with their unit (`duration_ms`), and the trace it was written in. Log ids, never objects that may hold a secret.
 * @param destination default: stderr.
 */
export function createLogger(level: LogLevel, destination: DestinationStream = standardError): Logger {
  return pino(
    {
      level,
      base: null,
      messageKey: "message",
      timestamp: createTimestamp(),
      formatters: { level: (label) => ({ level: label }), log: (fields) => coverSecrets(inTrace(fields)) },
    },
    destination,
  );
}

/** The moment to the millisecond, as text; a busy server has several lines in each. */
function createTimestamp(): () => string {
  let ofMs = 0;
  let text = "";
  return () => {
    const nowMs = Date.now();
    if (nowMs !== ofMs) text = `,"time":"${new Date(nowMs).toISOString()}"`;
    ofMs = nowMs;
    return text;
  };
}

function inTrace(fields: Record<string, unknown>): Record<string, unknown> {
  const span = activeSpan();
  return span === undefined ? fields : { ...traceFields(span), ...fields };
}

const secretNames: ReadonlySet<string> = new Set(["token", "secret", "password", "api_key", "value"]);

/**
 * No line should have an object within it. Should one come along, what may be a secret in it is covered. Lines have
 * none, so this costs them a look at each field; pino's own `redact` made 4 % of a request's processor time.
 */
function coverSecrets(fields: Record<string, unknown>): Record<string, unknown> {
  for (const name in fields) {
    const value = fields[name];
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      fields = { ...fields, [name]: cover(value) };
  }
  return fields;
}

function cover(held: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(held).map(([name, value]) => [name, secretNames.has(name) ? "**********" : value]),
  );
}

/** The whole chain of causes in one string, outermost first: "start replica: create container: no space left". */
export function describeError(error: unknown): string {
  const causes: string[] = [];
  for (let cause: unknown = error; cause !== undefined && causes.length < 10; ) {
    causes.push(cause instanceof Error ? cause.message : String(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return causes.join(": ");
}
