import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { createGateway } from "../src/gateway/gateway.ts";
import { createLogger } from "../src/telemetry/log.ts";
import type { BenchRun } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";
import { runLoad } from "./load.ts";

const rounds = 3;
const roundMs = { small: 500, full: 2_000 };
const connections = 16;

/**
 * Measures what the gateway adds to a request, to a stream event and to a cold start. The bare server answers from
 * memory in about 10 us, a tenth of what an agent server needs for its cheapest answer.
 */
export async function gatewayBench({ size }: Pick<BenchRun, "size">): Promise<BenchLine[]> {
  const agent = await startParty("agent");
  const proxy = await startParty("proxy", agent.port);
  const gateway = await startParty("gateway", agent.port);
  try {
    const measured = await measureRounds({ agent, proxy, gateway }, roundMs[size]);
    return [...requestLines(measured), await eventLine(agent.port, gateway.port), await coldStartLine()];
  } finally {
    for (const { child } of [gateway, proxy, agent]) child.kill();
  }
}

interface Party {
  child: ChildProcess;
  port: number;
}

async function startParty(role: "agent" | "proxy" | "gateway", targetPort?: number): Promise<Party> {
  const program = fileURLToPath(new URL("gateway-process.ts", import.meta.url));
  const child = fork(program, [role, ...(targetPort === undefined ? [] : [`${targetPort}`])]);
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  return { child, port };
}

type Parties = Record<"agent" | "proxy" | "gateway", Party>;
interface Round {
  requestsPerS: number;
  p99Ms: number;
  cpuMicrosPerRequest: number;
}
type Rounds = Record<keyof Parties, Round[]>;

/** Runs the three in turns, several times, so that a disturbance of the machine hits all of them. The first turn warms up. */
async function measureRounds(parties: Parties, durationMs: number): Promise<Rounds> {
  const measured: Rounds = { agent: [], proxy: [], gateway: [] };
  for (let round = 0; round <= rounds; round += 1) {
    for (const name of ["agent", "proxy", "gateway"] as const) {
      const result = await measureRound(parties[name], name === "gateway" ? "/d/demo/ok" : "/ok", durationMs);
      if (round > 0) measured[name].push(result);
    }
  }
  return measured;
}

async function measureRound({ child, port }: Party, path: string, durationMs: number): Promise<Round> {
  const before = await cpuMicros(child);
  const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n`;
  const load = await runLoad({ port, request, connections, durationMs });
  if (load.failed > 0) throw new Error(`${load.failed} of ${load.requests} requests failed`);
  const cpuMicrosPerRequest = ((await cpuMicros(child)) - before) / load.requests;
  return { requestsPerS: load.requestsPerS, p99Ms: percentile(load.latenciesMs, 99), cpuMicrosPerRequest };
}

async function cpuMicros(child: ChildProcess): Promise<number> {
  child.send("cpu");
  const [{ cpuMicros: micros }] = (await once(child, "message")) as [{ cpuMicros: number }];
  return micros;
}

function requestLines({ agent, proxy, gateway }: Rounds): BenchLine[] {
  const of = (rounds: Round[], field: keyof Round) => median(rounds.map((round) => round[field]));
  const compared = (floor: Round[], field: keyof Round) => ({ floor: of(floor, field), ours: of(gateway, field) });
  return [
    benchLine({
      goal: "gateway",
      name: `requests through the gateway against the bare server, ${connections} clients`,
      ...compared(agent, "requestsPerS"),
      unit: "1/s",
      target: { ratioMin: 0.18 },
    }),
    benchLine({
      goal: "gateway",
      name: `requests through the gateway against a proxy of ten lines, ${connections} clients`,
      ...compared(proxy, "requestsPerS"),
      unit: "1/s",
      target: { ratioMin: 0.75 },
    }),
    benchLine({
      goal: "gateway",
      name: "CPU of the gateway per request against a proxy of ten lines",
      ...compared(proxy, "cpuMicrosPerRequest"),
      unit: "us",
      target: { ratioMax: 1.3 },
    }),
    benchLine({
      goal: "gateway",
      name: `p99 of a request through the gateway against the bare server, ${connections} clients, saturated`,
      ...compared(agent, "p99Ms"),
      unit: "ms",
      target: { addedMax: 15 },
    }),
  ];
}

/** Measures the delay from an event's write in the agent server to its arrival in the client, ten streams at once. */
async function eventLine(agentPort: number, gatewayPort: number): Promise<BenchLine> {
  const streams = (port: number, path: string) =>
    Promise.all(Array.from({ length: 10 }, () => eventDelaysMs(port, path))).then((delays) => delays.flat());
  const direct = await streams(agentPort, "/events");
  const through = await streams(gatewayPort, "/d/demo/events");
  return benchLine({
    goal: "gateway",
    name: "p99 delay of a server-sent event",
    floor: percentile(direct, 99),
    ours: percentile(through, 99),
    unit: "ms",
    target: { addedMax: 5 },
  });
}

async function eventDelaysMs(port: number, path: string): Promise<number[]> {
  const request = get({ host: "127.0.0.1", port, path, agent: false });
  const [answer] = await once(request, "response");
  const delays: number[] = [];
  for await (const chunk of answer) {
    const now = process.hrtime.bigint();
    for (const [, writtenAt = "0"] of `${chunk}`.matchAll(/data: (\d+)/g))
      delays.push(Number(now - BigInt(writtenAt)) / 1e6);
  }
  return delays;
}

/** Compares the first answer of a sleeping deployment with the same server started bare: the cost of waking through the gateway. */
async function coldStartLine(): Promise<BenchLine> {
  const bare: number[] = [];
  const woken: number[] = [];
  for (let round = 0; round < 7; round += 1) {
    bare.push(await bareStartMs());
    woken.push(await wokenStartMs());
  }
  return benchLine({
    goal: "G13",
    name: "first answer of a sleeping deployment against the bare start of its server (gateway's share)",
    floor: median(bare),
    ours: median(woken),
    unit: "ms",
    target: { addedMax: 100 },
  });
}

async function bareStartMs(): Promise<number> {
  const start = performance.now();
  const { child, port } = await startParty("agent");
  await answerOf(port, "/ok");
  const tookMs = performance.now() - start;
  child.kill();
  return tookMs;
}

async function wokenStartMs(): Promise<number> {
  const logger = createLogger("error");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const server = createServer((request, response) => gateway.handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const route = { slug: "demo", deploymentId: "d1", revisionId: "rev-1", because: null };
  gateway.setRoute({ ...route, targets: [], state: "asleep" });
  const children: ChildProcess[] = [];
  gateway.onWake(() => {
    void startParty("agent").then(({ child, port }) => {
      children.push(child);
      gateway.setRoute({ ...route, targets: [{ replicaId: "r1", host: "127.0.0.1", port }], state: "open" });
    });
  });
  const start = performance.now();
  await answerOf((server.address() as AddressInfo).port, "/d/demo/ok");
  const tookMs = performance.now() - start;
  await gateway.close();
  server.close();
  server.closeAllConnections();
  for (const child of children) child.kill();
  return tookMs;
}

async function answerOf(port: number, path: string): Promise<void> {
  const [answer] = await once(get({ host: "127.0.0.1", port, path, agent: false }), "response");
  if (answer.statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}`);
  await answer.resume().toArray();
}
