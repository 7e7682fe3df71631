import { type Logger, pino } from "pino";

export type { Logger };

/** Levels an operator can choose (`PIERHEAD_LOG_LEVEL`). */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/**
 * The program's own log: one JSON line an event on stderr, a constant lower-case message, everything that varies in
 * fields with their unit (`duration_ms`). Log ids, never objects that may hold a secret.
 */
export function createLogger(level: LogLevel): Logger {
  return pino(
    {
      level,
      base: null,
      messageKey: "message",
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: ["*.token", "*.secret", "*.password", "*.api_key", "*.value"], censor: "**********" },
    },
    pino.destination({ dest: 2, sync: true }),
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
