import { usageFailure } from "../failure.ts";

/** Formats a duration: `0.4 s`, `12.4 s`, `3 min 05 s`. */
export function duration(ms: number): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

/** Formats the age of a timestamp in the largest unit that fits: `3m`, `5h`, `12d`. */
export function age(timestamp: string, now: number = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(timestamp)) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(0)} KiB`;
  if (bytes < 1024 * 1024 * 1024) return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
  return `${(bytes / 1024 / 1024 / 1024).toFixed(1)} GiB`;
}

/** Returns the sentence of a message, without the lines of a log below it. */
export const headline = (message: string) => (message.split("\n")[0] ?? "").replace(/ Last lines:$/, "");

/** Returns the first block of a UUID, which users read and type. */
export const shortId = (id: string) => id.slice(0, 8);

export const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** Quotes a word for the shell, if it needs that, so that a printed command runs as it stands. */
export const shellWord = (word: string) =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses `90`, `90s`, `10m`, `2h` or `1d` into milliseconds. A number without a unit is in seconds. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text);
  if (match === null) throw usageFailure(`"${text}" is not a duration.`, "Examples: 90s, 10m, 2h");
  return Number(match[1]) * unitMs[(match[2] ?? "s") as keyof typeof unitMs];
}

/**
 * Parses an ISO 8601 timestamp or an age into a timestamp for the API. A timestamp without a zone is in UTC, like those in logs and
 * events, on every machine.
 */
export function parseMoment(text: string, now: number = Date.now()): string {
  const [, day, time, zone = "Z"] = /^(\d{4}-\d{2}-\d{2})(?:[T ]([\d:.]+)(Z|[+-]\d{2}:?\d{2})?)?$/i.exec(text) ?? [];
  const at = Date.parse(time === undefined ? (day ?? "") : `${day}T${time}${zone}`);
  return new Date(Number.isNaN(at) ? Math.max(0, now - parseDuration(text)) : at).toISOString();
}

export function parseWhole(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw usageFailure(`"${text}" is not a whole number.`);
  return Number(text);
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-/;

/** Narrower columns tell nothing. */
const columnMin = 10;

/** Shortens cells until the lines fit into a width: ids to their first block, then the widest columns. @param gap between columns */
export function fitted(rows: readonly (readonly string[])[], width: number, gap = 2): string[][] {
  const cut = rows.map((row) => [...row]);
  const widthOf = (column: number) => Math.max(...cut.map((row) => (row[column] ?? "").length));
  const order = (cut[0] ?? []).map((_, column) => column);
  const excess = () => order.reduce((sum, column) => sum + widthOf(column), gap * (order.length - 1)) - width;
  for (const column of order) {
    if (excess() <= 0) return cut;
    for (const row of cut) if (uuid.test(row[column] ?? "")) row[column] = shortId(row[column] as string);
  }
  for (let over = excess(); over > 0; over = excess()) {
    const [widest = 0, next] = order.toSorted((a, b) => widthOf(b) - widthOf(a));
    const least = Math.max(columnMin, next === undefined ? 0 : Math.min(widthOf(next), widthOf(widest) - 1));
    const room = Math.max(least, widthOf(widest) - over);
    if (room >= widthOf(widest)) return cut; // all columns are as narrow as they may be
    for (const row of cut) row[widest] = shortened(row[widest] ?? "", room);
  }
  return cut;
}

const shortened = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** Pads each column to its widest cell, except for the last one. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Returns up to three candidates within an edit distance of a third of the word, nearest first. */
export function nearest(word: string, candidates: readonly string[]): string[] {
  const most = Math.max(1, Math.floor(word.length / 3));
  return candidates
    .map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ candidate }) => candidate);
}

/** Returns the Levenshtein distance of two words. */
function editDistance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [row, letter] of [...a].entries()) {
    const line = [row + 1];
    for (const [column, other] of [...b].entries()) {
      const replaced = (above[column] ?? 0) + (letter === other ? 0 : 1);
      line.push(Math.min(replaced, (above[column + 1] ?? 0) + 1, (line[column] ?? 0) + 1));
    }
    above = line;
  }
  return above[b.length] ?? 0;
}
