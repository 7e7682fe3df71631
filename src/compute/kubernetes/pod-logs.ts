import type { ReplicaLogChunk } from "../compute.ts";
import { readLogLine } from "../log-line.ts";
import type { ApiServer } from "./api-server.ts";

const stampPattern = /^(\d{4}-\d\d-\d\dT[\d:.]+Z) (.*)$/s;

/**
 * Lines of a pod after a cursor. The API server knows whole seconds only, so the second of the cursor is read again and
 * what was read before is dropped: a cursor is `<time stamp> <lines of that stamp>`.
 */
export async function readPodLog(
  api: ApiServer,
  pod: { namespace: string; name: string; container: string },
  after: string | null,
  bytesMax: number,
): Promise<ReplicaLogChunk> {
  const [stamp = "", counted = "0"] = (after ?? "").split(" ");
  const query = { container: pod.container, timestamps: true, limitBytes: bytesMax };
  const since = stamp === "" ? {} : { sinceTime: `${stamp.slice(0, 19)}Z` };
  const text = await api.readLog(pod, { ...query, ...since }, AbortSignal.timeout(10_000));
  const cut = text.length >= bytesMax ? text.slice(0, text.lastIndexOf("\n") + 1) : text;
  const lines: ReplicaLogChunk["lines"] = [];
  let last = { stamp, count: Number(counted) };
  const seen = new Map<string, number>();
  for (const line of cut.split("\n")) {
    const [, at, message] = stampPattern.exec(line) ?? [];
    if (at === undefined || message === undefined || at < stamp) continue;
    const count = (seen.get(at) ?? 0) + 1;
    seen.set(at, count);
    if (at === stamp && count <= Number(counted)) continue;
    last = { stamp: at, count };
    const key = `${pod.name}/${at}/${count}`;
    const read = readLogLine(message);
    lines.push({ key, timestamp: new Date(at), stream: "stdout", level: read.level, message: read.message });
  }
  return { lines, cursor: last.stamp === "" ? (after ?? "") : `${last.stamp} ${last.count}` };
}
