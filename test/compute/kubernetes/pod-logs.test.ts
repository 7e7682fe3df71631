import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiServer } from "../../../src/compute/kubernetes/api/api-server.ts";
import { readPodLog } from "../../../src/compute/kubernetes/watch/pod-logs.ts";

const nanoseconds = (number: number) => String(number).padStart(9, "0");

test("every line of a pod is read once and whole, even if one second has more lines than one read", async () => {
  const messages = Array.from({ length: 400 }, (_, at) => `Zeile ${100 + at}: äöü €`);
  const lines = messages.map((message, at) => `2026-11-22T21:19:44.${nanoseconds(at)}Z ${message}`);
  const lineBytes = Buffer.byteLength(`${lines[0]}\n`);
  await using pod = await startPod([...lines, "2026-11-22T21:19:45.000000001Z the end"]);
  // Cut within a line, and directly after one.
  for (const bytesMax of [1_000, 16 * lineBytes])
    assert.deepEqual(await pod.readAll(bytesMax), [...messages, "the end"]);
});

test("a line that is longer than a read is read, and so are the lines after it", async () => {
  const long = "x".repeat(5_000);
  await using pod = await startPod([
    `2026-11-22T21:19:44.000000001Z ${long}`,
    "2026-11-22T21:19:44.000000002Z the end",
  ]);
  assert.deepEqual(await pod.readAll(1_000), [long, "the end"]);
});

test("the rest of a second that is too large is skipped with a message, and the next second is read", async () => {
  const flood = `2026-11-22T21:19:44.000000002Z ${"x".repeat(17 * 1024 * 1024)}`;
  const end = "2026-11-22T21:19:45.000000000Z the end";
  const dropped = "pierhead: output was dropped here: more than 16 MiB in one second.";
  await using pod = await startPod(["2026-11-22T21:19:44.000000001Z the begin", flood, end]);
  assert.deepEqual(await pod.readAll(4 * 1024 * 1024), ["the begin", dropped, "the end"]);
  await using bare = await startPod([flood, end]);
  assert.deepEqual(await bare.readAll(16 * 1024 * 1024), [dropped, "the end"]);
});

test("lines of a node in another time zone are read correctly, also across a change to or from summer time", async () => {
  await using pod = await startPod([
    "2026-10-25T02:59:59.900000000+02:00 before",
    "2026-10-25T02:00:00.100000000+01:00 after",
    "2026-10-25T01:00:00.200000000Z moved",
    "2026-10-25T06:30:00.300000000+05:30 far away",
  ]);
  assert.deepEqual(await pod.readAll(64), ["before", "after", "moved", "far away"]);
  const { lines } = await pod.read(null, 10_000);
  assert.deepEqual(
    lines.map(({ timestamp }) => timestamp.toISOString()),
    ["2026-10-25T00:59:59.900Z", "2026-10-25T01:00:00.100Z", "2026-10-25T01:00:00.200Z", "2026-10-25T01:00:00.300Z"],
  );
});

/** A pod with this output behind an API server that serves it like a kubelet: from whole seconds, cut at a number of bytes. */
async function startPod(lines: string[]) {
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? "", "http://cluster");
    const sinceMs = Date.parse(searchParams.get("sinceTime") ?? "1970-01-01T00:00:00Z");
    const kept = lines.filter((line) => Date.parse(line.slice(0, line.indexOf(" "))) >= sinceMs);
    const bytes = Buffer.from(kept.map((line) => `${line}\n`).join(""));
    response.end(bytes.subarray(0, Number(searchParams.get("limitBytes"))));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = new ApiServer({ url, ca: null, token: async () => "token" });
  const pod = { namespace: "agents", name: "agent-1", container: "api-server" };
  const read = (after: string | null, bytesMax: number) => readPodLog(api, pod, after, bytesMax);
  return {
    read,
    /** Repeats reads until nothing new follows. */
    async readAll(bytesMax: number) {
      const messages: string[] = [];
      for (let cursor: string | null = null; ; ) {
        const chunk = await read(cursor, bytesMax);
        if (chunk.lines.length === 0) return messages;
        messages.push(...chunk.lines.map(({ message }) => message));
        cursor = chunk.cursor;
      }
    },
    async [Symbol.asyncDispose]() {
      api.close();
      server.closeAllConnections();
      server.close();
    },
  };
}
