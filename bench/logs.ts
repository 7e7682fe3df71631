import http from "node:http";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { epochHeader, type ReplicaLogLine } from "../src/contract/listeners/assignment.ts";
import type { BenchRun, DatabaseKind, Installation } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";
import { type Call, caller, deploy, type Made, makeListener } from "./listeners.ts";

interface Plan {
  rounds: number;
  /** Lines of the flood in each round. */
  lines: number;
  /** Samples of a quiet tail, 20 a second: as many alone in each round as next to the noise. */
  samples: number;
}

const plans: Record<BenchRun["size"], Plan> = {
  small: { rounds: 1, lines: 4_000, samples: 20 },
  full: { rounds: 3, lines: 200_000, samples: 300 },
};

/** The most lines that one call accepts. */
const batchLines = 1_000;

/** Data planes that flood at the same time. Each has a deployment and sends one call after the other. */
const senders = 4;

const sampleMs = 50;
const patienceMs = 120_000;

/** Measures storing the lines of agents while clients follow them: G10. */
export async function logsBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  const kinds = run.size === "small" ? run.kinds.slice(0, 1) : run.kinds;
  for (const kind of kinds) lines.push(...(await logLines(run, kind)));
  return lines;
}

async function logLines({ size, install }: BenchRun, kind: DatabaseKind): Promise<BenchLine[]> {
  await using installation = await install(kind);
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "none" });
  const agent = new http.Agent({ keepAlive: true });
  const call = caller(server, agent);
  const plan = plans[size];
  const taken = { bare: [] as number[], perS: [] as number[], alone: [] as number[], beside: [] as number[] };
  const tails: Tail[] = [];
  try {
    const writers: Writer[] = [];
    for (let index = 0; index <= senders; index += 1) {
      writers.push(await writer(call, installation, await makeListener(call, installation, index), index));
    }
    for (const { deploymentId } of writers) tails.push(await openTail(installation, server.url, deploymentId));
    const [[quiet, ...noisy], [quietTail, ...noisyTails]] = [writers, tails] as [[Writer, Writer], [Tail, Tail]];
    await flood(noisy, { lines: senders * batchLines, tails: noisyTails });
    for (let round = 0; round < plan.rounds; round += 1) {
      if (installation.databaseUrl !== undefined)
        taken.bare.push(await bareFlood(installation.databaseUrl, plan.lines));
      taken.alone.push(...(await sample(quiet, quietTail, plan.samples)));
      taken.perS.push(await flood(noisy, { lines: plan.lines, tails: noisyTails }));
      const beside = { quiet, tail: quietTail, samples: plan.samples };
      taken.beside.push(...(await sampleBesideNoise(noisy[0], beside)));
    }
  } finally {
    for (const tail of tails) tail.close();
    agent.destroy();
    await server.stop();
  }
  const than = kind === "postgres" ? ", against bare inserts of as many over one connection" : "";
  return [
    benchLine({
      goal: "G10",
      name: `lines of agents into the store, each sent to a tail${than}, on ${kind}`,
      floor: taken.bare.length === 0 ? null : median(taken.bare),
      ours: median(taken.perS),
      unit: "1/s",
      target: kind === "postgres" ? { oursMin: 20_000 } : "none",
    }),
    benchLine({
      goal: "G10",
      name: `line sent to line in the tail: p99, on ${kind}`,
      floor: null,
      ours: percentile(taken.alone, 99),
      unit: "ms",
      target: { oursMax: 300 },
    }),
    benchLine({
      goal: "G10",
      name: `the same: median beside a deployment that writes as much as it can, against alone, on ${kind}`,
      floor: median(taken.alone),
      ours: median(taken.beside),
      unit: "ms",
      target: { ratioMax: 2 },
    }),
  ];
}

interface Writer {
  deploymentId: string;
  /** Resolves once the lines are stored. */
  send(messages: string[]): Promise<void>;
}

async function writer(call: Call, installation: Installation, listener: Made, index: number): Promise<Writer> {
  const { listenerId, key, epoch } = listener;
  const { deploymentId } = await deploy(call, installation, listenerId, index);
  const read = { method: "GET", path: `/v2/deployments/${deploymentId}`, key: installation.adminKey } as const;
  const { latest_revision_id: revisionId } = (await call(read)) as { latest_revision_id: string };
  let count = 0;
  const lineOf = (message: string): ReplicaLogLine => ({
    deployment_id: deploymentId,
    revision_id: revisionId,
    replica_id: "replica-1",
    key: `replica-1:${count++}`,
    timestamp: new Date().toISOString(),
    stream: "stdout",
    level: "INFO",
    message,
  });
  return {
    deploymentId,
    async send(messages) {
      const body = { lines: messages.map(lineOf) };
      await call({ method: "POST", path: "/dp/v1/logs", key, body, headers: { [epochHeader]: epoch } });
    },
  };
}

interface Tail {
  /** Lines that arrived. */
  count: number;
  onMessage: (message: string) => void;
  close(): void;
}

async function openTail({ adminKey }: Installation, url: string, deploymentId: string): Promise<Tail> {
  const headers = { accept: "text/event-stream", "x-api-key": adminKey };
  const request = http.get(`${url}/v2/deployments/${deploymentId}/events?logs=deploy&logs_after=0`, {
    headers,
    agent: false,
  });
  const tail: Tail = { count: 0, onMessage: () => {}, close: () => request.destroy() };
  const opened = Promise.withResolvers<void>();
  request.on("error", opened.reject);
  request.once("response", (response) => {
    response.on("error", () => {});
    opened.resolve();
    const lines = createInterface({ input: response });
    lines.on("error", () => {});
    lines.on("line", (line) => {
      const message = /^data: .*"message":"(sent [^"]*)"/.exec(line)?.[1];
      if (message === undefined) return;
      tail.count += 1;
      tail.onMessage(message);
    });
  });
  await opened.promise;
  return tail;
}

/** About the length of an agent server's log line. */
const text = "INFO Background run succeeded [langgraph_runtime.worker] run_id=1f0a3c3e thread_id=8b1d run_exec_ms=1042";

/** @returns lines per second until each tail has received its last line. */
async function flood(noisy: Writer[], { lines, tails }: { lines: number; tails: Tail[] }): Promise<number> {
  const beganAt = performance.now();
  const messages = Array.from({ length: batchLines }, () => `sent ${text}`);
  const each = lines / noisy.length;
  const wanted = tails.map(({ count }) => count + each);
  const send = async (one: Writer) => {
    for (let sent = 0; sent < each; sent += batchLines) await one.send(messages.slice(0, each - sent));
  };
  await Promise.all(noisy.map(send));
  await until(() => tails.every(({ count }, index) => count >= (wanted[index] ?? 0)));
  return (lines / (performance.now() - beganAt)) * 1_000;
}

/** Returns the milliseconds from sending each line to its arrival in the tail. */
async function sample(quiet: Writer, tail: Tail, samples: number): Promise<number[]> {
  const sentAt: number[] = [];
  const tookMs: number[] = [];
  tail.onMessage = (message) => {
    const index = Number(message.split(" ")[1]);
    tookMs.push(performance.now() - (sentAt[index] ?? Number.NaN));
  };
  for (let index = 0; index < samples; index += 1) {
    sentAt.push(performance.now());
    await quiet.send([`sent ${index} ${text}`]);
    await sleep(sampleMs);
  }
  await until(() => tookMs.length >= samples);
  tail.onMessage = () => {};
  return tookMs;
}

/** Makes the noise of one data plane that sends one batch after the other. */
async function sampleBesideNoise(
  noisy: Writer,
  { quiet, tail, samples }: { quiet: Writer; tail: Tail; samples: number },
): Promise<number[]> {
  let isOver = false;
  const messages = Array.from({ length: batchLines }, () => `noise ${text}`);
  const noise = (async () => {
    while (!isOver) await noisy.send(messages);
  })();
  try {
    return await sample(quiet, tail, samples);
  } finally {
    isOver = true;
    await noise;
  }
}

/** Inserts the same rows with one statement per batch into a table with the same indexes. */
async function bareFlood(databaseUrl: string, lines: number): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("drop table if exists bare_log_entries");
    await client.query("create table bare_log_entries (like log_entries including all)");
    const beganAt = performance.now();
    for (let from = 0; from < lines; from += batchLines) {
      await client.query({
        name: "bare",
        text: `insert into bare_log_entries (tenant_id, deployment_id, revision_id, kind, replica_id, stream, level, logged_at, message, line_key)
               select $1, $1, $1, 'deploy', 'replica-1', 'stdout', 20, now(), m, 'replica-1:' || ($2::int + n)
                 from unnest($3::text[]) with ordinality u (m, n)`,
        values: [bareId, from, Array.from({ length: batchLines }, () => text)],
      });
    }
    return (lines / (performance.now() - beganAt)) * 1_000;
  } finally {
    await client.end();
  }
}

const bareId = "00000000-0000-4000-8000-000000000000";

async function until(holds: () => boolean): Promise<void> {
  const end = Date.now() + patienceMs;
  while (!holds()) {
    if (Date.now() > end) throw new Error("the lines did not arrive");
    await sleep(5);
  }
}
