import type { LogLevel } from "../telemetry/log.ts";
import { oneOf } from "./setting.ts";

/** Settings for Pierhead's own log lines, read by server and listener. */
export const logSettings = {
  logLevel: oneOf(
    "PIERHEAD_LOG_LEVEL",
    ["info", "debug", "warn", "error", "silent"] as const satisfies readonly LogLevel[],
    "Minimum level of Pierhead's own log lines.",
  ),
  logFormat: oneOf(
    "PIERHEAD_LOG_FORMAT",
    ["auto", "json", "text"] as const,
    "`json`: one object per line, for programs. `text`: for people. `auto`: `text` on a terminal, otherwise `json`.",
  ),
};
