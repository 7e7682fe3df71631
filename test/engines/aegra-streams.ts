import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startRedisServer } from "../provision/redis-server.ts";
import { eventually } from "../support/eventually.ts";
import { type AegraOptions, startAegraReplica } from "./aegra-replicas.ts";
import { expectComplete } from "./expectations.ts";
import { followStream, readJournal } from "./replicas.ts";

type World = Pick<AegraOptions, "pid" | "journal">;

const total = 4;
const stepMs = 1_500;

/** Adds the test of a stream whose replica is killed between a step and the writing of its event. */
export function testStreams(worldOf: () => Promise<World>): void {
  test("a stream has the event of a step that a killed replica could not write in time", async (context) => {
    const world = await worldOf();
    const redis = await startRedisServer();
    const start = async () => {
      const replica = await startAegraReplica({ ...world, redisUrl: redis.url, schema: "streams" });
      context.after(() => void replica.process.kill("SIGKILL"));
      return replica;
    };
    context.after(() => redis.stop());
    const killed = await start();
    const { thread_id } = await killed.client.threads.create();
    const { run_id } = await killed.client.runs.create(thread_id, "steps", {
      input: { total, ms: stepMs },
      streamMode: "custom",
      streamResumable: true,
    });
    for await (const { event } of killed.client.runs.joinStream(thread_id, run_id)) if (event === "custom") break;
    // The second step sends its event to a Redis that takes nothing any more.
    await command(redis.url, "CLIENT PAUSE 60000 WRITE");
    await eventually(
      () => readJournal(world.journal).some((one) => one.run_id === run_id && one.event === "end" && one.step === 2),
      (hasEnded) => hasEnded,
      { what: "the end of the second step", timeoutMs: 30_000 },
    );
    // Long enough to write the result of the step, which would not be run again then.
    await sleep(1_000);
    killed.process.kill("SIGKILL");
    await killed.ended;
    await command(redis.url, "CLIENT UNPAUSE");

    const other = await start();
    const events = await followStream(() => [other.url], thread_id, run_id);
    await expectComplete(other, [{ thread_id, run_id }], total);
    const sent = events.filter(({ event }) => event === "custom").map(({ data }) => data.step);
    assert.deepEqual(sent, [1, 2, 3, 4]);
  });
}

async function command(url: string, line: string): Promise<void> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.write(`${line}\r\n`);
  for await (const answer of socket) {
    assert.equal(String(answer), "+OK\r\n");
    break;
  }
}
