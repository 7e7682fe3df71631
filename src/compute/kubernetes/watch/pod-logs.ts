import type { ReplicaLogChunk } from "../../compute.ts";
import { readLogLine } from "../../log-line.ts";
import type { ApiServer } from "../api/api-server.ts";

/** A node writes times of its own zone (`2026-11-22T21:19:44.123456789+01:00`), and `Z` when that is UTC. */
const linePattern = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d) (.*)$/s;

/** Of one read, when a second has more lines than the reader asks for. A node keeps files of 10 MiB unless it is told otherwise. */
const readBytesMax = 16 * 1024 * 1024;

/**
 * Lines of a pod after a cursor. The API server knows whole seconds only, so the second of the cursor is read again and
 * what was read before is dropped: a cursor is `<time stamp in UTC> <lines of that stamp>`.
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
  // As much as was read of that second before may come again: then more is read, for nothing would ever follow otherwise.
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
  /** Empty: from the start. */
  stamp: string;
  /** Lines of that very time that were read. */
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
  }
  return { lines, cursor: cursorOf(last) };
}

/** To the nanosecond, which a `Date` does not hold. */
function inUtc(seconds: string, fraction: string, zone: string): string {
  if (zone === "Z") return `${seconds}${fraction}Z`;
  return `${new Date(seconds + zone).toISOString().slice(0, 19)}${fraction}Z`;
}

/** What is left of the second in which a read was cut off is given up, and a line says so. */
function nextSecond({ stamp, count }: Position, cutLine: string, podName: string): ReplicaLogChunk {
  const [, seconds, , zone = "Z"] = linePattern.exec(cutLine) ?? [];
  const begin = new Date(seconds === undefined ? `${stamp.slice(0, 19)}Z` : seconds + zone);
  const next = new Date(begin.getTime() + 1_000).toISOString().replace(".000Z", ".000000000Z");
  const message = `pierhead: output was dropped here: more than ${readBytesMax / 1024 / 1024} MiB in one second.`;
  const key = `${podName}/${stamp}/${count}:dropped`;
  const dropped = { key, timestamp: begin, stream: "stdout", level: "WARNING", message } as const;
  return { lines: [dropped], cursor: cursorOf({ stamp: next, count: 0 }) };
}
