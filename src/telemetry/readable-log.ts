import type { DestinationStream } from "pino";

const metadata = Symbol.for("pino.metadata");

type Line = Record<string, unknown>;

/** Formats the lines of the log for people: `17:04:05.123 WARN  listener lost contact listener_id=3f0c error="timed out"`. */
export function readableLog(destination: DestinationStream, isColored: boolean): DestinationStream {
  const readable = {
    /** Set by pino before each line; the destination writes severe lines at once. */
    set lastLevel(level: number) {
      (destination as { lastLevel?: number }).lastLevel = level;
    },
    write(line: string) {
      destination.write(`${format(line, isColored)}\n`);
    },
    [metadata]: true,
  };
  return readable;
}

function format(line: string, isColored: boolean): string {
  let fields: Line;
  try {
    fields = JSON.parse(line) as Line;
  } catch {
    return line.trimEnd();
  }
  const { time, level, message, ...rest } = fields;
  const paint = (code: number, text: string) => (isColored ? `\u001b[${code}m${text}\u001b[39m` : text);
  const name = String(level).toUpperCase().padEnd(5);
  const details = Object.entries(rest).map(([key, value]) => `${paint(36, key)}=${valueText(value)}`);
  return [paint(90, String(time).slice(11, 23)), paint(colors[String(level)] ?? 39, name), message, ...details].join(
    " ",
  );
}

const colors: Readonly<Record<string, number>> = { fatal: 31, error: 31, warn: 33, info: 32, debug: 90 };

/** Control characters stay escaped as in JSON, so that no value can move the cursor or begin a line. */
const valueText = (value: unknown) =>
  typeof value === "string" && /^[\w.:/@+-]+$/.test(value) ? value : JSON.stringify(value);
