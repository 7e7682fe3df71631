import { once } from "node:events";
import http from "node:http";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { type DesiredPage, epochHeader } from "../src/contract/listeners/assignment.ts";
import type { BenchRun, BenchServer, DatabaseKind, Installation } from "./installation.ts";
import { type BenchLine, benchLine, percentile } from "./line.ts";

const listeners = { small: 200, full: 1_000 };
const samples = { small: 40, full: 500 };
const warmUp = { listeners: 20, questions: 2_000 };
/** Requests arrive at this pace, so that the latencies are not those of a queue. */
const perS = 10;

/** Longer than anything measured here may take. */
const patienceMs = 60_000;

/** Measures many data planes on one control plane: G8. */
export async function listenersBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  for (const kind of run.kinds) lines.push(...(await fanOut(run, kind)));
  return lines;
}

async function fanOut({ size, install }: BenchRun, kind: DatabaseKind): Promise<BenchLine[]> {
  await using installation = await install(kind);
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "none" });
  const agent = new http.Agent({ keepAlive: true });
  const call = caller(server, agent);
  const stopping = new AbortController();
  const count = listeners[size];
  try {
    const made = await inTurns(count, (index) => makeListener(call, installation, index));
    // Sessions and keys are in memory, code is compiled and statements are planned, so the rest is the cost of waiting.
    await inTurns(warmUp.questions, (index) => askOnce(call, made[index % warmUp.listeners] as Made));
    const beforeBytes = await server.memory();
    const arrivals = new Map<string, { atMs: number; listenerId: string }>();
    for (const one of made) void follow({ agent, server }, one, stopping.signal, arrivals);
    await sleep(3_000);
    const waitingBytes = await server.memory();
    const latenciesMs: number[] = [];
    let astray = 0;
    for (let sample = 0; sample < samples[size]; sample += 1) {
      const { listenerId } = made[(sample * 7919) % count] as Made;
      const { deploymentId, atMs } = await deploy(call, installation, listenerId, sample);
      const arrival = await arrived(arrivals, deploymentId);
      latenciesMs.push(Math.max(0, arrival.atMs - atMs));
      if (arrival.listenerId !== listenerId) astray += 1;
      await sleep(1_000 / perS);
    }
    const each = (waitingBytes - beforeBytes) / 1_024 / count;
    const where = `with ${count} listeners, on ${kind}`;
    const line = (name: string, ours: number, unit: string, oursMax: number) =>
      benchLine({ goal: "G8", name: `${name} ${where}`, floor: null, ours, unit, target: { oursMax } });
    return [
      line("create to the listener that is to run it: median,", percentile(latenciesMs, 50), "ms", 200),
      line("create to the listener that is to run it: p99,", percentile(latenciesMs, 99), "ms", 200),
      line("work that reached another listener,", astray, "deployments", 0),
      line("memory of the server for each that waits,", each, "kB", 60),
    ];
  } finally {
    stopping.abort();
    agent.destroy();
    await server.stop();
  }
}

export interface Made {
  listenerId: string;
  key: string;
  epoch: string;
}

export type Call = (request: {
  method: "GET" | "POST";
  path: string;
  key: string;
  body?: object;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}) => Promise<unknown>;

export async function makeListener(call: Call, { adminKey: key }: Installation, index: number): Promise<Made> {
  const body = { compute_type: "k8s", compute_id: `cluster-${index}`, compute_config: {} };
  const made = (await call({ method: "POST", path: "/v2/listeners", key, body })) as {
    id: string;
    listener_key: string;
  };
  const request = { instance_id: "bench", version: "0", protocols: [1], compute_type: "kubernetes" };
  const opened = await call({ method: "POST", path: "/dp/v1/sessions", key: made.listener_key, body: request });
  return { listenerId: made.id, key: made.listener_key, epoch: String((opened as { epoch: number }).epoch) };
}

function askOnce(call: Call, { key, epoch }: Made): Promise<unknown> {
  return call({ method: "GET", path: "/dp/v1/desired?after=0&wait=0", key, headers: { [epochHeader]: epoch } });
}

/** Follows like a listener: one stream, reopened at its position when it ends. */
async function follow(
  { agent, server }: { agent: http.Agent; server: BenchServer },
  { listenerId, key, epoch }: Made,
  signal: AbortSignal,
  arrivals: Map<string, { atMs: number; listenerId: string }>,
): Promise<void> {
  let after = 0;
  const headers = { "x-api-key": key, [epochHeader]: epoch, accept: "text/event-stream" };
  while (!signal.aborted) {
    try {
      const request = http.get(`${server.url}/dp/v1/desired?after=${after}`, { agent, headers, signal });
      const [answer] = (await once(request, "response")) as [http.IncomingMessage];
      for await (const line of createInterface({ input: answer })) {
        if (!line.startsWith("data: ")) continue;
        const page = JSON.parse(line.slice("data: ".length)) as DesiredPage;
        after = page.rv;
        for (const { deployment_id: id } of page.items) {
          if (!arrivals.has(id)) arrivals.set(id, { atMs: performance.now(), listenerId });
        }
      }
    } catch {
      if (!signal.aborted) await sleep(100);
    }
  }
}

export async function deploy(call: Call, { adminKey: key }: Installation, listenerId: string, index: number) {
  const body = {
    name: `agent-${index}`,
    source: "external_docker",
    source_config: { listener_id: listenerId },
    source_revision_config: { image_uri: "127.0.0.1:1/agent:1" },
  };
  const made = (await call({ method: "POST", path: "/v2/deployments", key, body })) as { id: string };
  return { deploymentId: made.id, atMs: performance.now() };
}

async function arrived(arrivals: Map<string, { atMs: number; listenerId: string }>, deploymentId: string) {
  const end = performance.now() + patienceMs;
  for (;;) {
    const arrival = arrivals.get(deploymentId);
    if (arrival !== undefined) return arrival;
    if (performance.now() > end) throw new Error("the work did not arrive");
    await sleep(1);
  }
}

/** Runs 20 at a time. */
async function inTurns<T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  for (let from = 0; from < count; from += 20) {
    const indexes = Array.from({ length: Math.min(20, count - from) }, (_, index) => from + index);
    made.push(...(await Promise.all(indexes.map(make))));
  }
  return made;
}

export function caller({ url }: BenchServer, agent: http.Agent): Call {
  return ({ method, path, key, body, headers, signal }) =>
    new Promise((resolve, reject) => {
      const payload = body === undefined ? undefined : JSON.stringify(body);
      const type = payload === undefined ? {} : { "content-type": "application/json" };
      const options = { method, agent, headers: { "x-api-key": key, ...type, ...headers } };
      const request = http.request(
        url + path,
        { ...options, ...(signal === undefined ? {} : { signal }) },
        (answer) => {
          let text = "";
          answer.setEncoding("utf8").on("data", (chunk: string) => {
            text += chunk;
          });
          answer.on("end", () => {
            if ((answer.statusCode ?? 500) < 300) resolve(JSON.parse(text || "null"));
            else reject(new Error(`${method} ${path} answered ${answer.statusCode}: ${text.slice(0, 200)}`));
          });
        },
      );
      request.on("error", reject);
      request.end(payload);
    });
}
