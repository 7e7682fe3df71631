import type { ReplicaLogChunk } from "../../compute.ts";
import { readLogLine } from "../../log-line.ts";
import type { ApiServer } from "../api/api-server.ts";

/** A node writes timestamps in its own time zone (`2026-11-22T21:19:44.123456789+01:00`), with `Z` for UTC. */
const linePattern = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d) (.*)$/s;

/** Limit of one read when a second has more lines than requested. A node's log files have 10 MiB by default. */
const readBytesMax = 16 * 1024 * 1024;

/** Lines of one read. Each read reads the second of its cursor again, so fewer would read a flood too often. */
const linesMax = 5_000;

/**
 * Reads lines of a pod after a cursor. The API server accepts whole seconds only, so the second of the cursor is read again
 * and lines that were read before are dropped. A cursor is `<timestamp in UTC> <number of lines read with that timestamp>`.
 */
export async function readPodLog(
  api: ApiServer,
  pod: { namespace: string; name: string; container: string },
  after: string | null,
  bytesMax: number,
): Promise<ReplicaLogChunk> {
  const [stamp = "", counted = "0"] = (after ?? "").split(" ");
  const position = { stamp, count: Number(counted) };
  const query = { container: pod.container, timestamps: true };
  const since = stamp === "" ? {} : { sinceTime: `${stamp.slice(0, 19)}Z` };
  // A read may return only lines that were read before. Then the limit is raised, because otherwise nothing would follow.
  for (let limitBytes = bytesMax; ; limitBytes *= 2) {
    const text = await api.readLog(pod, { ...query, ...since, limitBytes }, AbortSignal.timeout(10_000));
    const isCut = Buffer.byteLength(text) >= limitBytes;
    const end = isCut ? text.lastIndexOf("\n") + 1 : text.length;
    const found = linesAfter(position, text.slice(0, end), pod.name);
    if (found.lines.length > 0 || !isCut) return found;
    if (limitBytes >= readBytesMax) return nextSecond(position, text.slice(end), pod.name);
  }
}

interface Position {
  /** Empty: the start of the log. */
  stamp: string;
  /** Number of lines read with that timestamp. */
  count: number;
}

const cursorOf = ({ stamp, count }: Position) => (stamp === "" ? "" : `${stamp} ${count}`);

function linesAfter(position: Position, text: string, podName: string): ReplicaLogChunk {
  const lines: ReplicaLogChunk["lines"] = [];
  let last = position;
  const seen = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, seconds = "", fraction = "", zone = "", message] = linePattern.exec(line) ?? [];
    if (message === undefined) continue;
    const at = inUtc(seconds, fraction, zone);
    if (at < position.stamp) continue;
    const count = (seen.get(at) ?? 0) + 1;
    seen.set(at, count);
    if (at === position.stamp && count <= position.count) continue;
    last = { stamp: at, count };
    const key = `${podName}/${at}/${count}`;
    const read = readLogLine(message);
    lines.push({ key, timestamp: new Date(at), stream: "stdout", level: read.level, message: read.message });
    if (lines.length >= linesMax) break;
  }
  return { lines, cursor: cursorOf(last) };
}

/** Converts to UTC with nanoseconds, which a `Date` cannot hold. */
function inUtc(seconds: string, fraction: string, zone: string): string {
  if (zone === "Z") return `${seconds}${fraction}Z`;
  return `${new Date(seconds + zone).toISOString().slice(0, 19)}${fraction}Z`;
}

/** Skips the rest of a second that is too large to read, and adds a line that reports the gap. */
function nextSecond({ stamp, count }: Position, cutLine: string, podName: string): ReplicaLogChunk {
  const [, seconds, , zone = "Z"] = linePattern.exec(cutLine) ?? [];
  const begin = new Date(seconds === undefined ? `${stamp.slice(0, 19)}Z` : seconds + zone);
  const next = new Date(begin.getTime() + 1_000).toISOString().replace(".000Z", ".000000000Z");
  const message = `pierhead: output was dropped here: more than ${readBytesMax / 1024 / 1024} MiB in one second.`;
  const key = `${podName}/${stamp}/${count}:dropped`;
  const dropped = { key, timestamp: begin, stream: "stdout", level: "WARNING", message } as const;
  return { lines: [dropped], cursor: cursorOf({ stamp: next, count: 0 }) };
}
