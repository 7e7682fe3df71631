import http from "node:http";
import pg from "pg";
import type { BenchRun, BenchServer, DatabaseKind, Installation } from "./installation.ts";
import { type BenchLine, benchLine, percentile } from "./line.ts";
import { sharedClockMs, type WrittenEvent } from "./write-events.ts";

const watchersMany = { small: 200, full: 1_000 };
const samples = { small: 100, full: 1_000 };
/** Events while many clients watch. The server sends each event to all of them. */
const samplesOfMany = { small: 20, full: 100 };
const missed = { small: 5_000, full: 100_000 };
const perS = { one: 50, many: 10 };

/** Measures the time from the commit of an event to the watching clients: G7. */
export async function watchBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  for (const kind of run.kinds) lines.push(...(await watchLines(run, kind)));
  return lines;
}

async function watchLines({ size, install }: BenchRun, kind: DatabaseKind): Promise<BenchLine[]> {
  await using installation = await install(kind);
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "none" });
  try {
    const floor = await floorOf(installation, server, samples[size]);
    const one = await latencies(installation, server, { watchers: 1, count: samples[size], perS: perS.one });
    const many = watchersMany[size];
    const all = await latencies(installation, server, { watchers: many, count: samplesOfMany[size], perS: perS.many });
    const lost = await countMissed(installation, server, missed[size]);
    const than = kind === "postgres" ? "a bare NOTIFY" : "a read of the row";
    const line = (name: string, rank: number, ours: number[], oursMax: number) =>
      benchLine({
        goal: "G7",
        name: `${name} against ${than}, on ${kind}`,
        floor: percentile(floor, rank),
        ours: percentile(ours, rank),
        unit: "ms",
        target: { oursMax },
      });
    return [
      line("commit to the one watcher: median", 50, one, 10),
      line("commit to the one watcher: p99", 99, one, 50),
      line(`commit to each of ${many} watchers: median`, 50, all, 200),
      line(`commit to each of ${many} watchers: p99`, 99, all, 200),
      benchLine({
        goal: "G7",
        name: `events missed or delivered twice, of ${missed[size]} by 8 writers, on ${kind}`,
        floor: null,
        ours: lost,
        unit: "events",
        target: { oursMax: 0 },
      }),
    ];
  } finally {
    await server.stop();
  }
}

/** The floor. PostgreSQL: from a NOTIFY to its arrival on another connection. Embedded: reading back a committed row. */
async function floorOf({ databaseUrl }: Installation, server: BenchServer, count: number): Promise<number[]> {
  if (databaseUrl === undefined) return server.readBack(count);
  const [speaker, ear] = [new pg.Client(databaseUrl), new pg.Client(databaseUrl)];
  await Promise.all([speaker.connect(), ear.connect()]);
  await ear.query("listen bench");
  const latenciesMs: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const heard = new Promise<number>((resolve) => ear.once("notification", () => resolve(performance.now())));
    const beganMs = performance.now();
    await speaker.query("notify bench");
    latenciesMs.push((await heard) - beganMs);
  }
  await Promise.all([speaker.end(), ear.end()]);
  return latenciesMs;
}

/** Returns the milliseconds from the commit of each event to each watcher. */
async function latencies(
  installation: Installation,
  server: BenchServer,
  run: { watchers: number; count: number; perS: number },
): Promise<number[]> {
  const arrivals: { id: number; atMs: number }[] = [];
  const watchers = await Promise.all(
    Array.from({ length: run.watchers }, () =>
      watch(installation, server, (id) => arrivals.push({ id, atMs: sharedClockMs() })),
    ),
  );
  const written: WrittenEvent[] = await server.writeEvents(run.count, run.perS);
  await until(() => arrivals.length >= run.count * run.watchers);
  for (const watcher of watchers) watcher.close();
  const committedAt = new Map(written.map(({ id, committedAtMs }) => [id, committedAtMs]));
  return arrivals.map(({ id, atMs }) => Math.max(0, atMs - (committedAt.get(id) ?? Number.NaN)));
}

async function countMissed(installation: Installation, server: BenchServer, count: number): Promise<number> {
  const got: number[] = [];
  const watcher = await watch(installation, server, (id) => got.push(id));
  const written = (await server.writeManyEvents(count)).toSorted((a, b) => a - b);
  const last = written.at(-1);
  await until(() => got.at(-1) === last);
  watcher.close();
  const isSame = got.length === written.length && got.every((id, index) => id === written[index]);
  if (isSame) return 0;
  const wanted = new Set(written);
  const told = new Set(got);
  const lost = written.filter((id) => !told.has(id)).length;
  return Math.max(1, lost + (got.length - told.size) + got.filter((id) => !wanted.has(id)).length);
}

/** Opens one stream. Resolves once no later event can be missed. */
async function watch(
  { adminKey }: Installation,
  { url }: BenchServer,
  onEvent: (id: number) => void,
): Promise<{ close(): void }> {
  const headers = { accept: "text/event-stream", "x-api-key": adminKey };
  const request = http.get(`${url}/v2/events`, { headers, agent: false });
  const opened = Promise.withResolvers<void>();
  request.on("error", opened.reject);
  request.once("response", (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (chunk: string) => {
      opened.resolve();
      text += chunk;
      const end = text.lastIndexOf("\n\n") + 2;
      for (const [, id] of text.slice(0, end).matchAll(/^id: (\d+)\nevent: /gm)) onEvent(Number(id));
      text = text.slice(end);
    });
    response.on("error", () => {});
  });
  await opened.promise;
  return { close: () => request.destroy() };
}

/** Longer than anything measured here may take. */
const patienceMs = 120_000;

async function until(holds: () => boolean): Promise<void> {
  const end = Date.now() + patienceMs;
  while (!holds()) {
    if (Date.now() > end) throw new Error("the events did not arrive");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
