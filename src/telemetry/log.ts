import { type DestinationStream, type Logger, pino } from "pino";
import { activeSpan, traceFields } from "./traces.ts";

export type { Logger };

/** Levels an operator can choose (`PIERHEAD_LOG_LEVEL`). */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/**
 * The program's own log: one JSON line an event on stderr, a constant lower-case message, everything that varies in
 * fields with their unit (`duration_ms`), and the trace it was written in. Log ids, never objects that may hold a secret.
 * @param destination default: stderr.
 */
export function createLogger(level: LogLevel, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: null,
      messageKey: "message",
      timestamp: pino.stdTimeFunctions.isoTime,
      mixin: () => traceFields(activeSpan()),
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: ["*.token", "*.secret", "*.password", "*.api_key", "*.value"], censor: "**********" },
    },
    destination ?? pino.destination({ dest: 2, sync: true }),
  );
}

/** The whole chain of causes in one string, outermost first: "start replica: create container: no space left". */
export function explain(error: unknown): string {
  const causes: string[] = [];
  for (let cause: unknown = error; cause !== undefined && causes.length < 10; ) {
    causes.push(cause instanceof Error ? cause.message : String(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return causes.join(": ");
}
