import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import type { Loose } from "./checks.ts";
import { expectNeverTwice, type Started, whyIncomplete } from "./expectations.ts";
import { describeIncomplete, type Hit } from "./incomplete-runs.ts";
import { followStream, type Replica, readJournal, type Step } from "./replicas.ts";

/** What a fault hits. `end` is SIGTERM, `cut` takes the network from one replica for longer than a lease. */
export type Fault = "kill" | "end" | "cut" | "database" | "redis";

export interface KillWorld {
  start(): Promise<Replica>;
  journal: string;
  /** In this order, again and again. */
  faults: readonly Fault[];
  /** Performs the faults that do not end a replica. */
  perform(fault: "cut" | "database" | "redis", victim: Replica): Promise<void>;
  replicas: number;
  /** Number of the first event of a stream; undefined if an engine leaves numbers out. They ascend then. */
  firstEvent?: number;
}

export interface KillSize {
  kills: number;
  runsAtOnce: number;
  /** No kill begins later. The counts say how many there were. */
  minutesMax: number;
  /** Steps of a run, and how long each takes. */
  total: number;
  ms: number;
}

/**
 * `PIERHEAD_ENGINE_KILLS=200` is the full size. It takes some twenty minutes, so give the runner `--timeout-minutes 40`: it ends a test file
 * after ten. `PIERHEAD_ENGINE_KILL_MINUTES` ends it earlier.
 */
export function sizeOf(environment: NodeJS.ProcessEnv): KillSize {
  const kills = Number(environment["PIERHEAD_ENGINE_KILLS"] ?? 2);
  const isLong = kills > 2;
  const minutesMax = Number(environment["PIERHEAD_ENGINE_KILL_MINUTES"] ?? 30);
  return { kills, minutesMax, runsAtOnce: isLong ? 50 : 20, total: 12, ms: isLong ? 400 : 150 };
}

/** Every fifth run is watched by a client that reconnects. */
const watchedEvery = 5;

/** How many runs are read at once when all have ended. */
const readAtOnce = 12;

/**
 * Lets clients start runs without a pause while faults hit the replicas, and then expects that no run is lost, none ran twice at once,
 * no step was repeated more often than a fault hit its run, and streams have all events. Prints the counts.
 */
export async function surviveKills(world: KillWorld, size: KillSize, signal: AbortSignal): Promise<Loose> {
  const { total } = size;
  // A busy machine may let a start time out. What starts replicas then starts another one.
  const started: Replica[] = [];
  const start = async () => {
    const replica = await world.start().catch(() => world.start());
    started.push(replica);
    return replica;
  };
  const replicas = await Promise.all(Array.from({ length: world.replicas }, start));
  const anyReplica = () => replicas[Math.floor(Math.random() * replicas.length)] as Replica;
  const runs: Started[] = [];
  const streams: { events: Awaited<ReturnType<typeof followStream>>; sawRedisEnd: boolean }[] = [];
  const stop = new AbortController();
  const hits: Hit[] = [];
  const made = { kill: 0, end: 0, cut: 0, database: 0, redis: 0 } satisfies Record<Fault, number>;

  /** Starts one run after the other. A start whose replica dies is repeated with another one. */
  const client = async () => {
    while (!stop.signal.aborted && !signal.aborted) {
      const run = await startRun(anyReplica(), size).catch(() => undefined);
      if (run === undefined) {
        await sleep(100);
        continue;
      }
      runs.push(run);
      const isWatched = runs.length % watchedEvery === 0;
      const { redis } = made;
      if (!isWatched) await untilEnded(anyReplica, run, signal);
      else {
        const events = await followStream(() => replicas.map(({ url }) => url), run.thread_id, run.run_id);
        streams.push({ events, sawRedisEnd: made.redis !== redis });
      }
    }
  };
  const clients = Array.from({ length: size.runsAtOnce }, client);
  const endsAt = performance.now() + size.minutesMax * 60_000;
  const busy = newestSteps(world.journal);
  let done = 0;
  for (; done < size.kills && performance.now() < endsAt; done += 1) {
    const fault = world.faults[done % world.faults.length] as Fault;
    const victim = replicas.shift() as Replica;
    const seen = await busy();
    await eventually(
      busy,
      (pids) => (pids.get(victim.process.pid ?? 0) ?? 0) > (seen.get(victim.process.pid ?? 0) ?? 0),
      {
        what: `a step of the replica before ${fault} ${done + 1}`,
      },
    );
    const hit = { fault, number: done + 1, pid: pidHitBy(fault, victim), from: Date.now(), until: Date.now() };
    hits.push(hit);
    if (fault === "kill" || fault === "end") {
      victim.process.kill(fault === "kill" ? "SIGKILL" : "SIGTERM");
      replicas.push(await start());
    } else {
      await world.perform(fault, victim);
      hit.until = Date.now();
      replicas.push(victim);
    }
    made[fault] += 1;
    if (done % 20 === 19) console.log(`${done + 1} kills, ${runs.length} runs begun`);
  }
  stop.abort();
  await Promise.all(clients);
  const last = replicas.at(-1) as Replica;
  console.log(`${done} kills, ${runs.length} runs`);
  const complete: Started[] = [];
  const incomplete: { run: Started; why: string }[] = [];
  for (let at = 0; at < runs.length; at += readAtOnce) {
    const part = runs.slice(at, at + readAtOnce);
    const reasons = await Promise.all(part.map((run) => whyIncomplete(last, run, total)));
    for (const [index, run] of part.entries()) {
      const why = reasons[index];
      if (why === undefined) complete.push(run);
      else incomplete.push({ run, why });
    }
  }
  const steps = readJournal(world.journal);
  const report = describeIncomplete(incomplete, steps, hits, started);
  if (report.length > 0) console.log(`${incomplete.length} runs are not complete:\n${report.join("\n")}`);
  const { repeated, restarts, mostRepeated } = expectNeverTwice(steps, complete, total);
  const whole = streams.filter(({ sawRedisEnd }) => !sawRedisEnd);
  for (const { events } of whole) expectWhole(events, world, total);
  // A start whose answer was lost has made a run, too.
  const { queue } = await eventually(
    async () => (await (await fetch(`${last.url}/metrics?format=json`)).json()) as Loose,
    (metrics) => metrics["queue"].n_pending + metrics["queue"].n_running === 0,
    { what: "an empty queue" },
  );
  const kinds = Object.entries(made).filter(([, count]) => count > 0);
  console.log(
    `${done} kills (${kinds.map(([kind, count]) => `${count} ${kind}`).join(", ")}): ${runs.length} runs, ${incomplete.length} not complete, 0 twice at once, ${queue.n_recovered} recovered, ${restarts} restarts, ${repeated} steps repeated, at most ${mostRepeated} times, ${whole.length} of ${streams.length} streams whole`,
  );
  assert.ok(done > 0, "no kill was made");
  assert.equal(incomplete.length, 0, `${incomplete.length} runs are not complete:\n${report.join("\n")}`);
  assert.deepEqual([queue.n_pending, queue.n_running, queue.n_failed], [0, 0, 0]);
  return { ...queue, done };
}

/** Expects that a stream has all events of a run, in order. */
function expectWhole(events: Awaited<ReturnType<typeof followStream>>, { firstEvent }: KillWorld, total: number): void {
  const ids = events.map(({ id }) => id);
  if (firstEvent !== undefined)
    assert.deepEqual(
      ids,
      [...ids.keys()].map((index) => index + firstEvent),
    );
  const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] as number));
  assert.ok(isAscending, `the events of a stream have the numbers ${ids}`);
  const seen = new Set(events.filter(({ event }) => event === "custom").map(({ data }) => data.step));
  assert.equal(seen.size, total);
}

/** Returns the replica that a fault hits; undefined if it hits all. */
const pidHitBy = (fault: Fault, victim: Replica) =>
  fault === "database" || fault === "redis" ? undefined : victim.process.pid;

async function startRun({ client }: Replica, { total, ms }: KillSize): Promise<Started> {
  const { thread_id } = await client.threads.create();
  const options = { input: { total, ms }, streamMode: "custom", streamResumable: true };
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

/** Returns a reader that counts the steps of each process. It reads only what is new: the journal of a long test has many megabytes. */
function newestSteps(journal: string): () => Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  let read = 0;
  let rest = "";
  return async () => {
    try {
      for await (const part of createReadStream(journal, { start: read, encoding: "utf8" })) {
        read += Buffer.byteLength(part);
        const lines = (rest + part).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) {
          const { event, pid } = JSON.parse(line) as Step;
          if (event === "end") counts.set(pid, (counts.get(pid) ?? 0) + 1);
        }
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    return new Map(counts);
  };
}
