import { type DestinationStream, type Logger, pino } from "pino";
import { standardError } from "./standard-error.ts";
import { activeSpan, traceFields } from "./traces.ts";

export type { Logger };

/** Levels an operator can choose (`PIERHEAD_LOG_LEVEL`). */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/**
 * Creates the program's log: one JSON line per event on stderr, with a constant lower-case message, all variable parts in
 * fields with their unit (`duration_ms`), and the current trace. Log ids, never objects that may contain a secret.
 * @param destination default: stderr.
 */
export function createLogger(level: LogLevel, destination: DestinationStream = standardError): Logger {
  return pino(
    {
      level,
      base: null,
      messageKey: "message",
      timestamp: createTimestamp(),
      formatters: { level: (label) => ({ level: label }), log: (fields) => maskSecrets(inTrace(fields)) },
    },
    destination,
  );
}

/** Formats the time to the millisecond and caches the text, because a busy server writes several lines per millisecond. */
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
 * Masks possible secrets in objects. Lines should contain no objects, so this usually costs one check per field; pino's own
 * `redact` took 4 % of a request's processor time.
 */
function maskSecrets(fields: Record<string, unknown>): Record<string, unknown> {
  for (const name in fields) {
    const value = fields[name];
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      fields = { ...fields, [name]: mask(value) };
  }
  return fields;
}

function mask(held: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(held).map(([name, value]) => [name, secretNames.has(name) ? "**********" : value]),
  );
}

/** Returns the whole chain of causes in one string, outermost first: "start replica: create container: no space left". */
export function describeError(error: unknown): string {
  const causes: string[] = [];
  for (let cause: unknown = error; cause !== undefined && causes.length < 10; ) {
    causes.push(cause instanceof Error ? cause.message : String(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return causes.join(": ");
}
