import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { ReplicaLogChunk, ReplicaSpec } from "../../src/compute/compute.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { soon } from "../compute/compute-world.ts";
import { eventually } from "../support/eventually.ts";
import { ask, DockerWorld } from "./docker-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

type Line = ReplicaLogChunk["lines"][number];

/** Reads from a cursor until nothing more comes and `isAll` holds. */
async function readOn(world: DockerWorld, spec: ReplicaSpec, isAll: (lines: Line[]) => boolean, from: string | null) {
  let cursor = from;
  const lines: Line[] = [];
  await eventually(
    async () => {
      const chunk = await world.compute.readLogs(spec.replicaId, cursor, 64 * 1024);
      cursor = chunk.cursor;
      lines.push(...chunk.lines);
      return chunk.lines.length;
    },
    (count) => count === 0 && isAll(lines),
  );
  return { lines, cursor: cursor as string | null };
}

const messages = (lines: Line[]) => lines.map(({ message }) => message);
const write = (state: { address?: { host: string; port: number } }, text: string) =>
  ask(state as never, `/write?text=${encodeURIComponent(text)}`);

describe("docker: logs", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
  });
  after(() => end?.());

  test("lines keep their order, with time, stream and level, and each has a unique key", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await world.agent("healthy");
    const state = await world.start(wanted);
    for (const text of ["first", "ERROR second", '{"level":"warn","message":"third"}']) await write(state, text);
    const { lines } = await readOn(world, wanted, (read) => read.length >= 3, null);
    assert.deepEqual(messages(lines), ["first", "ERROR second", "third"]);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ["INFO", "ERROR", "WARNING"],
    );
    assert.equal(new Set(lines.map(({ key }) => key)).size, 3);
    for (const { timestamp, stream } of lines) {
      assert.ok(Math.abs(timestamp.getTime() - Date.now()) < 300_000);
      assert.equal(stream, "stdout");
    }
  });

  test("a reader that continues from a cursor, also with another driver, gets each following line once", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await world.agent("healthy");
    const state = await world.start(wanted);
    await write(state, Array.from({ length: 50 }, (_, index) => `line ${index}`).join("\n"));
    const first = await readOn(world, wanted, (read) => read.length >= 50, null);
    await write(state, "between");
    await world.reopen();
    const second = await readOn(world, wanted, (read) => read.length >= 1, first.cursor);
    assert.deepEqual(messages(second.lines), ["between"]);
    const again = await readOn(world, wanted, (read) => read.length >= 51, null);
    const keys = (lines: Line[]) => lines.map(({ key }) => key);
    assert.deepEqual(keys(again.lines), [...keys(first.lines), ...keys(second.lines)], "keys are stable");
  });

  test("a line longer than the engine's frames is one line, up to 64 KiB", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await world.agent("talker");
    await world.compute.ensure(wanted, soon());
    await world.exits(wanted);
    const { lines } = await readOn(world, wanted, (read) => read.length >= 4, null);
    assert.deepEqual(
      lines.map(({ message }) => message.length),
      [40_000, 65_536, 100_000 - 65_536, 3],
    );
    assert.equal(lines.at(-1)?.message, "end");
  });

  test("the last output of a replica is read after its exit, from both streams", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await world.agent("broken");
    await world.compute.ensure(wanted, soon());
    const exit = await world.exits(wanted);
    const chunk = await world.compute.readLogs(wanted.replicaId, null, 64 * 1024);
    assert.deepEqual(messages(chunk.lines).toSorted(), exit.lastLines.toSorted());
    assert.deepEqual(chunk.lines.map(({ stream }) => stream).toSorted(), ["stderr", "stdout"]);
    const rest = await world.compute.readLogs(wanted.replicaId, chunk.cursor, 64 * 1024);
    assert.deepEqual(rest, { lines: [], cursor: chunk.cursor });
  });

  test("a large output is read completely, in chunks of the requested size", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await world.agent("healthy");
    const state = await world.start(wanted);
    await ask(state, "/flood?mib=8");
    let [cursor, count] = [null as string | null, 0];
    await eventually(
      async () => {
        const chunk = await world.compute.readLogs(wanted.replicaId, cursor, 256 * 1024);
        assert.ok(chunk.lines.length <= 257, `${chunk.lines.length} lines of 1 KiB at once`);
        cursor = chunk.cursor;
        count += chunk.lines.length;
        return count;
      },
      (read) => read === 8 * 1024,
    );
  });
});
