import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import type { Loose } from "./checks.ts";
import { expectComplete, expectOneAtATime, type Started } from "./expectations.ts";
import { followStream, newJournal, type Replica, readJournal, startReplica } from "./replicas.ts";

/** `PIERHEAD_ENGINE_KILLS=200` is the full size, which takes some twenty minutes. */
const kills = Number(process.env["PIERHEAD_ENGINE_KILLS"] ?? 2);
const runsAtOnce = kills > 2 ? 50 : 20;
const replicasAtOnce = 3;
/** Every fifth run is watched by a client that reconnects. */
const watchedEvery = 5;
const total = 12;

const server = await startPostgresServer();
after(() => server?.stop());

test(`${kills} kills under ${runsAtOnce} concurrent runs lose no run, run none twice at once, and cut no stream for good`, async (context) => {
  const journal = newJournal();
  // A replica that a busy machine holds up for a shorter time must not lose its runs again and again: three losses without a
  // new checkpoint end a run.
  const engine = { schema: "kills", leaseMs: 6_000, maxConnections: 4 };
  const start = () => startReplica("postgres", { connectionString: server?.url ?? "", engine, journal });
  const replicas: Replica[] = await Promise.all(Array.from({ length: replicasAtOnce }, start));
  /** Ends the clients when the test has failed. */
  const ended = new AbortController();
  context.after(() => {
    ended.abort();
    for (const { process } of replicas) process.kill("SIGKILL");
  });
  const anyReplica = () => replicas[Math.floor(Math.random() * replicas.length)] as Replica;
  const urls = () => replicas.map(({ url }) => url);
  const runs: Started[] = [];
  const streams: Awaited<ReturnType<typeof followStream>>[] = [];
  const stop = new AbortController();

  /** Starts one run after the other. A start whose replica dies is repeated with another one. */
  const client = async () => {
    while (!stop.signal.aborted && !ended.signal.aborted) {
      const run = await startRun(anyReplica()).catch(() => undefined);
      if (run === undefined) {
        await sleep(100);
        continue;
      }
      runs.push(run);
      const { thread_id, run_id } = run;
      if (runs.length % watchedEvery === 0) streams.push(await followStream(urls, thread_id, run_id));
      else await untilEnded(anyReplica, run, ended.signal);
    }
  };
  const clients = Array.from({ length: runsAtOnce }, client);
  for (let kill = 0; kill < kills; kill += 1) {
    const victim = replicas.shift() as Replica;
    const isBusy = () => readJournal(journal).some(({ pid, event }) => pid === victim.process.pid && event === "end");
    await eventually(isBusy, Boolean, { timeoutMs: 60_000, what: "a step of the replica" });
    victim.process.kill("SIGKILL");
    replicas.push(await start());
  }
  stop.abort();
  await Promise.all(clients);
  const [last] = replicas as [Replica];
  await expectComplete(last, runs, total);
  const steps = readJournal(journal);
  expectOneAtATime(steps, runs, total);
  for (const events of streams) {
    assert.deepEqual(
      events.map(({ id }) => id),
      events.map((_, index) => index),
    );
    const seen = new Set(events.filter(({ event }) => event === "custom").map(({ data }) => data.step));
    assert.equal(seen.size, total);
  }
  const { queue } = (await (await fetch(`${last.url}/metrics?format=json`)).json()) as Loose;
  const repeated = steps.filter(({ event }) => event === "begin").length - runs.length * total;
  console.log(
    `${kills} kills: ${runs.length} runs, ${queue.n_recovered} recovered, ${repeated} steps repeated, ${streams.length} streams whole`,
  );
  assert.ok(queue.n_recovered > 0, "the kills hit running runs");
  assert.deepEqual([queue.n_pending, queue.n_running, queue.n_failed], [0, 0, 0]);
});

async function startRun({ client }: Replica): Promise<Started> {
  const { thread_id } = await client.threads.create();
  const options = { input: { total, ms: 150 }, streamMode: "custom", streamResumable: true };
  const { run_id } = await client.runs.create(thread_id, "steps", options);
  return { thread_id, run_id };
}

async function untilEnded(
  anyReplica: () => Replica,
  { thread_id, run_id }: Started,
  signal: AbortSignal,
): Promise<void> {
  const isOpen = async () => {
    const run = await anyReplica()
      .client.runs.get(thread_id, run_id)
      .catch(() => ({ status: "unknown" }));
    return ["pending", "running", "unknown"].includes(run.status);
  };
  while (!signal.aborted && (await isOpen())) await sleep(500);
}
