import { createLogger, type Logger, type LogLevel } from "./log.ts";
import { readableLog } from "./readable-log.ts";
import { standardError } from "./standard-error.ts";

interface LogSettings {
  logLevel: LogLevel;
  logFormat: "auto" | "json" | "text";
}

/** Creates the log of a program on its stderr, readable for people if that is a terminal. */
export function createOwnLog(
  { logLevel, logFormat }: LogSettings,
  { env, stderr }: Pick<NodeJS.Process, "env" | "stderr">,
): Logger {
  const isTerminal = stderr.isTTY === true;
  if (logFormat === "json" || (logFormat === "auto" && !isTerminal)) return createLogger(logLevel);
  return createLogger(logLevel, readableLog(standardError, isTerminal && !env["NO_COLOR"]));
}
