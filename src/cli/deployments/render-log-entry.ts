import type { LogEntry } from "../../contract/logs/log.ts";
import { harmless, type Paint, type Style } from "../terminal/terminal.ts";
import { shortId } from "../terminal/text.ts";

const colors: Record<string, Style> = { WARNING: "yellow", ERROR: "red", CRITICAL: "red", DEBUG: "dim" };

/** Returns a log entry as one line of text. @param origin name of its deployment, when several are shown. */
export function renderLogEntry(entry: LogEntry, paint: Paint, origin = ""): string {
  const replica = entry.replica === null ? "" : ` ${paint("cyan", shortId(entry.replica))}`;
  const color = colors[entry.level];
  const level = entry.level === "INFO" ? "" : ` ${color === undefined ? entry.level : paint(color, entry.level)}`;
  const from = origin === "" ? "" : ` ${paint("cyan", origin)}`;
  const at = paint("dim", entry.timestamp.slice(0, 23).replace("T", " "));
  return `${at}${from}${replica}${level} ${harmless(entry.message)}`;
}
