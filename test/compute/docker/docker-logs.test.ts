import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { type TestContext, test } from "node:test";
import { ContainerLog } from "../../../src/compute/docker/replicas/container-log.ts";
import { eventually } from "../../support/eventually.ts";
import { startFakeEngine } from "./fake-engine.ts";

test("a log can be read again after the engine was unreachable", {
  timeout: 20_000,
}, async (context) => {
  const asked = await startEngine(context, (response, count) => {
    if (count === 1) response.socket?.destroy();
    else response.write(frame("first"));
  });
  const log = new ContainerLog(asked.engine, "agent", "replica");
  context.after(() => log.close());
  await assert.rejects(log.read(null, { bytesMax: 65_536, isFinal: false }), /cannot be reached/);
  assert.deepEqual(await readOn(log, 1), ["first"]);
  assert.equal(asked.count, 2);
});

test("output after a broken log connection is read once the container has ended", {
  timeout: 20_000,
}, async (context) => {
  const { engine } = await startEngine(context, (response, count) => {
    if (count > 1) return response.end(frame("first") + frame("last words", 1));
    return response.write(frame("first"), () => response.socket?.destroy());
  });
  const log = new ContainerLog(engine, "agent", "replica");
  context.after(() => log.close());
  const first = await eventually(
    () => log.read(null, { bytesMax: 65_536, isFinal: false }),
    ({ lines }) => lines.length > 0,
  );
  // The exit is usually reported a moment later, when the connection is gone already.
  await new Promise((resolve) => setTimeout(resolve, 200));
  const rest = await log.read(first.cursor, { bytesMax: 65_536, isFinal: true });
  assert.deepEqual(messages(rest.lines), ["last words"]);
  const after = await log.read(rest.cursor, { bytesMax: 65_536, isFinal: true });
  assert.deepEqual(after.lines, []);
});

test("one read of a finished log returns both streams, even if the engine sends one of them a moment later", {
  timeout: 20_000,
}, async (context) => {
  const { engine } = await startEngine(context, (response) => {
    response.write(frame("first"));
    setTimeout(() => response.end(frame("a moment later")), 200);
  });
  const log = new ContainerLog(engine, "agent", "replica");
  context.after(() => log.close());
  const { lines } = await log.read(null, { bytesMax: 65_536, isFinal: true });
  assert.deepEqual(messages(lines), ["first", "a moment later"]);
});

test("a line of JSON that is nested too deeply to be written again does not end the server", {
  timeout: 20_000,
}, async (context) => {
  const deep = `{"msg":"x","a":${"[".repeat(5_000)}${"]".repeat(5_000)}}`;
  const { engine } = await startEngine(context, (response) => response.write(frame(deep) + frame("afterwards", 1)));
  const log = new ContainerLog(engine, "agent", "replica");
  context.after(() => log.close());
  assert.deepEqual(await readOn(log, 2), [deep, "afterwards"]);
});

test("a flood of the shortest lines is read in small parts, and the engine keeps the rest", {
  timeout: 60_000,
}, async (context) => {
  const count = 20_000;
  const { engine } = await startEngine(context, (response) => response.write(frame("").repeat(count)));
  const log = new ContainerLog(engine, "agent", "replica");
  context.after(() => log.close());
  let cursor: string | null = null;
  let read = 0;
  await eventually(
    async () => {
      const chunk = await log.read(cursor, { bytesMax: 256 * 1024, isFinal: false });
      cursor = chunk.cursor;
      assert.ok(chunk.lines.length <= 1_024, `${chunk.lines.length} lines at once`);
      read += chunk.lines.length;
      return read;
    },
    (found) => found === count,
    { timeoutMs: 50_000 },
  );
});

test("reading a log that the engine does not start to send times out, so that others get their turn", {
  timeout: 30_000,
}, async (context) => {
  const { engine } = await startEngine(context, () => {});
  const log = new ContainerLog(engine, "agent", "replica");
  await assert.rejects(log.read(null, { bytesMax: 65_536, isFinal: false }), /did not start sending the log/);
});

const messages = (lines: { message: string }[]) => lines.map(({ message }) => message);

async function readOn(log: ContainerLog, count: number): Promise<string[]> {
  const read: string[] = [];
  let cursor: string | null = null;
  await eventually(
    async () => {
      const chunk = await log.read(cursor, { bytesMax: 65_536, isFinal: false });
      cursor = chunk.cursor;
      read.push(...messages(chunk.lines));
      return read.length;
    },
    (found) => found >= count,
  );
  return read;
}

/** A line on stdout in the engine's framing. */
function frame(text: string, second = 0): string {
  const line = `2026-01-01T00:00:0${second}.000000000Z ${text}\n`;
  const header = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32BE(line.length, 4);
  return header.toString("latin1") + line;
}

/** An engine with one container, whose log is requested repeatedly. */
async function startEngine(context: TestContext, answer: (response: ServerResponse, count: number) => unknown) {
  const asked = { count: 0 };
  const engine = await startFakeEngine(context, (_, response) => {
    asked.count += 1;
    answer(response, asked.count);
  });
  return Object.assign(asked, { engine });
}
