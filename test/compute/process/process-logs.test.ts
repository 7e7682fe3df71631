import assert from "node:assert/strict";
import { appendFile, mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import type { ReplicaLogChunk, ReplicaSpec } from "../../../src/compute/compute.ts";
import { readLogLine } from "../../../src/compute/log-line.ts";
import { ReplicaLog } from "../../../src/compute/process/logs/replica-log.ts";
import { eventually } from "../../support/eventually.ts";
import { writeAgent } from "../agents.ts";
import { soon } from "../compute-world.ts";
import { ask, ProcessWorld } from "./process-world.ts";

type Lines = ReplicaLogChunk["lines"];

describe("process compute: the output of a replica", () => {
  let world: ProcessWorld;
  before(async () => {
    world = await ProcessWorld.open();
  });
  after(() => world?.[Symbol.asyncDispose]());

  /** Reads until nothing new follows. */
  const readAll = async (spec: ReplicaSpec, from: string | null = null, bytesMax = 64 * 1024) => {
    const lines: Lines = [];
    for (let cursor = from; ; ) {
      const chunk = await world.compute.readLogs(spec.replicaId, cursor, bytesMax);
      lines.push(...chunk.lines);
      if (chunk.lines.length === 0 && chunk.cursor === cursor) return { lines, cursor };
      cursor = chunk.cursor;
    }
  };
  const runToEnd = async (program: string) => {
    const spec = world.spec(await writeAgent(path.join(world.root, `agent-${Math.random()}`), program));
    await world.compute.ensure(spec, soon());
    await world.exits(spec);
    return spec;
  };

  test("lines keep the order of each stream, with level and time", async () => {
    const spec = await runToEnd(`
      console.log("starting");
      console.log(JSON.stringify({ timestamp: "2026-01-02T03:04:05.678Z", level: "warn", event: "low on tokens", left: 7 }));
      console.error("Error: no model");
      process.stdout.write("no line end");
    `);
    const { lines } = await readAll(spec);
    const ofStream = (name: string) =>
      lines.filter((line) => line.stream === name).map(({ level, message }) => [level, message]);
    assert.deepEqual(ofStream("stdout"), [
      ["INFO", "starting"],
      ["WARNING", "low on tokens left=7"],
      ["INFO", "no line end"],
    ]);
    assert.deepEqual(ofStream("stderr"), [["ERROR", "Error: no model"]]);
    assert.ok(lines.some((line) => line.timestamp.toISOString() === "2026-01-02T03:04:05.678Z"));
    for (const line of lines) assert.ok(line.timestamp.getTime() <= Date.now());
    await world.remove(spec);
  });

  test("reading again from a cursor returns the same lines, also after a restart of the server", async () => {
    const spec = await world.agent("healthy");
    const state = await world.start(spec);
    for (const text of ["one", "two", "three"]) await ask(state, `/write?text=${text}`);
    const whole = await readAll(spec);
    assert.deepEqual(
      whole.lines.map((line) => line.message),
      ["one", "two", "three"],
    );
    const first = await world.compute.readLogs(spec.replicaId, null, 1);
    await world.reopen();
    assert.deepEqual((await readAll(spec)).lines, whole.lines);
    assert.deepEqual((await readAll(spec, first.cursor)).lines, whole.lines.slice(first.lines.length));
    await ask(state, "/write?text=four");
    assert.deepEqual(
      (await readAll(spec, whole.cursor)).lines.map((line) => line.message),
      ["four"],
    );
    await world.remove(spec);
  });

  test("a line is not read before it is complete, and a line without end is split into pieces of 64 KiB", async () => {
    const spec = await runToEnd(`
      process.stdout.write("ä".repeat(100_000) + "\\nlast\\n");
      process.stderr.write("half");
    `);
    const { lines } = await readAll(spec);
    const messagesOf = (stream: string) => lines.filter((line) => line.stream === stream).map((line) => line.message);
    const pieces = messagesOf("stdout").slice(0, -1);
    assert.equal(pieces.join(""), "ä".repeat(100_000));
    for (const piece of pieces) assert.ok(Buffer.byteLength(piece) <= 64 * 1024);
    assert.equal(messagesOf("stdout").at(-1), "last");
    assert.deepEqual(messagesOf("stderr"), ["half"]);
    await world.remove(spec);
  });

  test("100 MiB of output stay within the size limit, and the log says what is missing", async () => {
    const spec = await world.agent("healthy");
    const state = await world.start(spec);
    await ask(state, "/write?text=the+first+line");
    const before = await readAll(spec);
    await ask(state, "/flood?mib=100");
    await ask(state, "/write?text=the+last+line");
    const bytesMax = 64 * 1024 * 1024;
    await eventually(
      () => diskUse(world.directoryOf(spec)),
      (bytes) => bytes <= bytesMax,
    );
    const { lines, cursor } = await readAll(spec, before.cursor, 4 * 1024 * 1024);
    const note = /^pierhead: \d+\.\d MiB of output were dropped here/;
    assert.match(lines[0]?.message ?? "", note);
    assert.equal(lines.at(-1)?.message, "the last line");
    // A rotation while the test reads drops more and may cut the line before. Output of its last microseconds is lost,
    // so the ends of two lines may become one.
    const strange = lines.slice(1, -1).find(({ message }) => !/^x{1,2046}$/.test(message) && !note.test(message));
    assert.equal(strange, undefined);
    const keys = [...before.lines, ...lines].map((line) => line.key);
    assert.equal(new Set(keys).size, keys.length);
    await ask(state, "/write?text=afterwards");
    assert.deepEqual(
      (await readAll(spec, cursor)).lines.map((line) => line.message),
      ["afterwards"],
    );
    await world.remove(spec);
  });

  test("an unknown replica has no lines", async () => {
    assert.deepEqual(await world.compute.readLogs("never-was", null, 1_000), { lines: [], cursor: "0-0" });
  });
});

test("process compute: under any order of writing, rotating and reading, lines stay complete, in order and unique", async () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ write: fc.array(fc.string({ unit: fc.constantFrom("x", "ä"), maxLength: 30 }), { maxLength: 4 }) }),
      fc.constantFrom("bound" as const, "read" as const, "reopen" as const),
    ),
    { maxLength: 40 },
  );
  const root = await mkdtemp(path.join(tmpdir(), "pierhead-compute-"));
  let runs = 0;
  const property = fc.asyncProperty(steps, async (taken) => {
    const directory = path.join(root, String(runs++));
    await mkdir(directory);
    let log = new ReplicaLog(directory, "replica");
    let cursor: string | null = null;
    const [written, seen] = [[] as string[], [] as Lines];
    const read = async () => {
      const chunk: ReplicaLogChunk = await log.read(cursor, { bytesMax: 1_000, isFinal: false });
      cursor = chunk.cursor;
      seen.push(...chunk.lines);
    };
    const write = async (lines: string[]) => {
      const numbered = lines.map((line, index) => `${written.length + index}:${line}`);
      written.push(...numbered);
      await appendFile(path.join(directory, "stdout.log"), numbered.map((line) => `${line}\n`).join(""));
    };
    for (const step of taken) {
      if (typeof step === "object") await write(step.write);
      else if (step === "bound") await log.rotate(64);
      else if (step === "read") await read();
      else log = new ReplicaLog(directory, "replica");
    }
    await write(["a", "b"]);
    await read();
    await read();
    const isNote = (line: Lines[number]) => line.key.endsWith(":dropped");
    const messages = seen.filter((line) => !isNote(line)).map((line) => line.message);
    if (!seen.some(isNote)) assert.deepEqual(messages, written);
    let position = 0;
    for (const message of messages) {
      // A line whose beginning was dropped is returned only if nothing follows it yet.
      while (position < written.length && !written[position]?.endsWith(message)) position++;
      assert.ok(position++ < written.length, `${message} is not next among ${written}`);
    }
    assert.equal(messages.at(-1), written.at(-1));
    assert.equal(new Set(seen.map((line) => line.key)).size, seen.length);
    assert.deepEqual(await log.lastLines(1), [written.at(-1)]);
  });
  await fc.assert(property, { numRuns: 150 }).finally(() => rm(root, { recursive: true, force: true }));
});

test("process compute: a flood of the shortest lines is read in small parts, in order, and none is lost", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-compute-"));
  try {
    const written = Array.from({ length: 5_000 }, (_, index) => `{${index}`);
    await appendFile(path.join(directory, "stdout.log"), written.map((line) => `${line}\n`).join(""));
    const log = new ReplicaLog(directory, "replica");
    const parts: string[][] = [];
    let cursor: string | null = null;
    do {
      const chunk: ReplicaLogChunk = await log.read(cursor, { bytesMax: 256 * 1024, isFinal: false });
      parts.push(chunk.lines.map(({ message }) => message));
      cursor = chunk.cursor;
    } while (parts.at(-1)?.length !== 0);
    assert.deepEqual(parts.flat(), written);
    // Otherwise 262,144 lines of one byte come at once, and no request is answered while they are read.
    for (const part of parts) assert.ok(part.length <= 1_024, `${part.length} lines at once`);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("process compute: a line of JSON that is nested too deeply to be written again is shown as it is, and others follow", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-compute-"));
  try {
    const deep = `{"msg":"x","a":${"[".repeat(30_000)}${"]".repeat(30_000)}}`;
    await appendFile(path.join(directory, "stdout.log"), `${deep}\nafterwards\n`);
    const { lines } = await new ReplicaLog(directory, "replica").read(null, { bytesMax: 256 * 1024, isFinal: false });
    assert.deepEqual(
      lines.map(({ message }) => message),
      [deep, "afterwards"],
    );
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("process compute: the level of a line comes from JSON or from its first words, and is INFO otherwise", () => {
  const levels: [string, string][] = [
    ['{"level":50,"time":1767322800000,"msg":"pino"}', "ERROR"],
    ['{"severity":"CRITICAL","message":"cloud"}', "CRITICAL"],
    ['{"level":"debug","event":"structlog"}', "DEBUG"],
    ['{"answer":42}', "INFO"],
    ["{ not json, error", "INFO"],
    ["ERROR: connection refused", "ERROR"],
    ["warn: slow", "WARNING"],
    ["2026-01-02 10:00:00,123 [app] ERROR in main", "ERROR"],
    ["[warning] disk", "WARNING"],
    ["TypeError: x is not a function", "ERROR"],
    ["\u001b[31merror\u001b[39m: red", "ERROR"],
    ["finished without error", "INFO"],
    ["", "INFO"],
  ];
  for (const [line, level] of levels) assert.equal(readLogLine(line).level, level, line);
  assert.equal(readLogLine('{"answer":42}').message, '{"answer":42}');
  assert.equal(readLogLine('{"level":"info","msg":"hi","a":{"b":1}}').message, 'hi a={"b":1}');
  assert.equal(readLogLine(JSON.stringify({ msg: "GET / \u001b[32m200\u001b[0m" })).message, "GET / 200");
  for (const time of [1e15, -1e12, 8.64e15]) assert.equal(readLogLine(JSON.stringify({ time })).timestamp, undefined);
  assert.equal(
    readLogLine('{"level":30,"time":1767322800000,"msg":"x"}').timestamp?.toISOString(),
    "2026-01-02T03:00:00.000Z",
  );
});

async function diskUse(directory: string): Promise<number> {
  const files = (await readdir(directory, { withFileTypes: true })).filter((entry) => entry.isFile());
  const sizes = files.map((entry) =>
    stat(path.join(directory, entry.name)).then(
      (found) => found.size,
      () => 0,
    ),
  );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
