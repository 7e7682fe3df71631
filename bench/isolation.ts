import { randomUUID } from "node:crypto";
import pg from "pg";
import { type Client, createClient } from "../src/client/client.ts";
import { openSimulatedCompute } from "../src/compute/simulated.ts";
import { startSimulatedListener } from "../test/storm/simulated-listener.ts";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../test/support/agent-repository.ts";
import { eventually } from "../test/support/eventually.ts";
import { settled } from "./deploy.ts";
import { toBeEnded } from "./endings.ts";
import type { BenchRun, BenchServer, DatabaseKind, Installation } from "./installation.ts";
import { type BenchLine, benchLine, percentile } from "./line.ts";
import { runLoad } from "./load.ts";
import { neighbourLines } from "./neighbours.ts";

const plans = {
  small: { rounds: 1, loadMs: 1_000, deploys: 3, lockedMs: 2_000 },
  full: { rounds: 3, loadMs: 3_000, deploys: 10, lockedMs: 10_000 },
};

/** Two builds run at a time. One that hangs leaves a slot to the others. With both slots taken, others wait. */
const stuckBuilds = 1;
const stuckStarts = 8;
const stuckCalls = 8;

/** Far from saturation, because waiting for the processor would hide waiting for other work. */
const connections = 2;

const ratioMax = 2;
const timeoutMs = 120_000;

const hangingBuild = JSON.stringify({
  build: ["node", "-e", "setTimeout(() => {}, 3600000)"],
  start: ["node", "server.js"],
});
const neverReady = "setInterval(() => {}, 1000)";

/**
 * Measures what other deployments notice while a build, starts of agents and driver calls never return, compared with the
 * same load without them, in turns on one server. Also measures what callers of agents notice while the database stalls.
 */
export async function isolationBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  await using repository = await createAgentRepository(nodeAgent("one"));
  const kinds = run.size === "small" ? run.kinds.slice(0, 1) : run.kinds;
  for (const kind of kinds) lines.push(...(await isolationLines(run, kind, repository)));
  for (const kind of kinds) lines.push(...(await neighbourLines(run, kind, repository)));
  return lines;
}

interface Stage {
  api: Client;
  server: BenchServer;
  adminKey: string;
  repository: AgentRepository;
  /** Serves during the whole run. */
  served: { id: string; path: string };
  /** A listener whose driver never returns from a start of an image called `stuck`. */
  listenerId: string;
}

/** Milliseconds of each sample. */
interface Samples {
  request: number[];
  read: number[];
  deploy: number[];
  start: number[];
}

const none = (): Samples => ({ request: [], read: [], deploy: [], start: [] });

async function isolationLines(run: BenchRun, kind: DatabaseKind, repository: AgentRepository): Promise<BenchLine[]> {
  await using installation = await run.install(kind);
  const plan = plans[run.size];
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "process" });
  const api = createClient({ baseUrl: server.url, apiKey: installation.adminKey });
  const { id: listenerId, listener_key: key } = await api.createListener({
    body: { compute_type: "k8s", compute_id: "simulated", compute_config: {} },
  });
  const listener = startSimulatedListener(openWedgedCompute(), server.url, key as string);
  const stopListener = toBeEnded(() => listener.stop());
  const { adminKey } = installation;
  try {
    const served = await serve(api, repository);
    const stage: Stage = { api, server, adminKey, repository, served, listenerId };
    const calm = none();
    const beside = none();
    await measure(stage, { ...plan, deploys: 1, loadMs: 200 }, none());
    for (let round = 0; round < plan.rounds; round += 1) {
      await measure(stage, plan, calm);
      const stuck = await getStuck(stage);
      await measure(stage, plan, beside);
      await removeAll(api, stuck);
    }
    return [...linesOf(calm, beside, kind), ...(await lockedLines(stage, plan, installation))];
  } finally {
    // Agents outlive their server, and a list no longer shows deployments that are being deleted.
    const left: string[] = [];
    for await (const { id } of api.all("listDeployments")) left.push(id);
    await removeAll(api, left);
    await stopListener();
    await server.stop();
  }
}

function openWedgedCompute() {
  const compute = openSimulatedCompute({ seed: 1 });
  return {
    ...compute,
    ensure: (...[spec, signal]: Parameters<typeof compute.ensure>) =>
      JSON.stringify(spec.artifact).includes("stuck") ? new Promise<void>(() => {}) : compute.ensure(spec, signal),
  };
}

async function measure(stage: Stage, plan: { loadMs: number; deploys: number }, samples: Samples): Promise<void> {
  const { api, server, served, adminKey } = stage;
  samples.request.push(...(await latencies(server.port, `${served.path}/version`, { durationMs: plan.loadMs })));
  const read = { durationMs: plan.loadMs, header: `X-Api-Key: ${adminKey}\r\n` };
  samples.read.push(...(await latencies(server.port, `/v2/deployments/${served.id}`, read)));
  for (let turn = 0; turn < plan.deploys; turn += 1) {
    const commit = await stage.repository.commit(nodeAgent(randomUUID()));
    for (const [name, make] of [
      ["deploy", () => createAgent(stage, commit)],
      ["start", () => createImage(stage, "agent")],
    ] as const) {
      const beganAt = performance.now();
      const made = await make();
      await settled(api, made.id, made.latest_revision_id as string, "DEPLOYED", timeoutMs);
      samples[name].push(performance.now() - beganAt);
      await removeAll(api, [made.id]);
    }
  }
}

async function latencies(
  port: number,
  path: string,
  { durationMs, header = "" }: { durationMs: number; header?: string },
) {
  const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${header}\r\n`;
  const load = await runLoad({ port, request, connections, durationMs });
  if (load.failed > 0) throw new Error(`${load.failed} of ${load.requests} requests of ${path} failed`);
  return load.latenciesMs;
}

async function serve(api: Client, repository: AgentRepository): Promise<Stage["served"]> {
  const commit = await repository.commit(nodeAgent("served"));
  const { id, latest_revision_id: revision } = await createAgent({ api, repository }, commit);
  await settled(api, id, revision as string, "DEPLOYED", timeoutMs);
  const { url } = await api.getDeployment({ deployment_id: id });
  return { id, path: new URL(url ?? "").pathname };
}

/** @returns ids of deployments whose step runs until they are deleted. */
async function getStuck(stage: Stage): Promise<string[]> {
  const { api, repository } = stage;
  const build = await repository.commit({ ...nodeAgent(randomUUID()), "pierhead.json": hangingBuild });
  const start = await repository.commit({ ...nodeAgent("x"), "server.js": neverReady });
  const stuck: { id: string; status: string }[] = [];
  const many = async (count: number, status: string, make: () => Promise<{ id: string }>) => {
    for (let index = 0; index < count; index += 1) stuck.push({ id: (await make()).id, status });
  };
  await many(stuckStarts, "DEPLOYING", () => createAgent(stage, start));
  await many(stuckCalls, "DEPLOYING", () => createImage(stage, "stuck"));
  await many(stuckBuilds, "BUILDING", () => createAgent(stage, build));
  for (const { id, status } of stuck) {
    const newest = async () => (await api.listRevisions({ deployment_id: id, limit: 1 })).resources[0]?.status;
    await eventually(newest, (found) => found === status, { timeoutMs, what: status });
  }
  return stuck.map(({ id }) => id);
}

async function removeAll(api: Client, ids: string[]): Promise<void> {
  for (const id of ids) await api.deleteDeployment({ deployment_id: id });
  for (const id of ids) await api.waitForDeletion({ deployment_id: id }, { timeoutMs });
}

const createAgent = ({ api, repository }: Pick<Stage, "api" | "repository">, commit: string) =>
  api.createDeployment({
    body: {
      name: `bench-${randomUUID()}`,
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: commit, langgraph_config_path: "pierhead.json" },
    },
  });

const createImage = ({ api, listenerId }: Pick<Stage, "api" | "listenerId">, name: string) =>
  api.createDeployment({
    body: {
      name: `bench-${randomUUID()}`,
      source: "external_docker",
      source_config: { listener_id: listenerId },
      source_revision_config: { image_uri: `registry.invalid/${name}:1` },
    },
  });

function linesOf(calm: Samples, beside: Samples, kind: DatabaseKind): BenchLine[] {
  const stuck = `${stuckBuilds} build, ${stuckStarts} starts and ${stuckCalls} calls of a driver that never end`;
  const names: Record<keyof Samples, string> = {
    request: "p99 of a request to another agent",
    read: "p99 of reading another deployment",
    deploy: "commit to DEPLOYED of another agent: p99",
    start: "image to DEPLOYED on the listener with that driver: p99",
  };
  return Object.entries(names).map(([name, words]) =>
    benchLine({
      goal: "R8",
      name: `${words}, beside ${stuck}, on ${kind}`,
      floor: percentile(calm[name as keyof Samples], 99),
      ours: percentile(beside[name as keyof Samples], 99),
      unit: "ms",
      target: { ratioMax },
    }),
  );
}

/** Locks the tables that every pass and call reads, as when the database's disk stalls. */
async function lockedLines(
  { server, served }: Stage,
  { lockedMs }: { lockedMs: number },
  { databaseUrl }: Installation,
): Promise<BenchLine[]> {
  if (databaseUrl === undefined) return [];
  const ask = (durationMs: number) => latencies(server.port, `${served.path}/version`, { durationMs });
  const calm = await ask(lockedMs / 2);
  const locked: number[] = [];
  const locker = new pg.Client({ connectionString: databaseUrl });
  await locker.connect();
  try {
    await locker.query("begin");
    await locker.query("lock table deployments, revisions, assignments, reconcile_queue in access exclusive mode");
    locked.push(...(await ask(lockedMs)));
  } finally {
    await locker.end();
  }
  calm.push(...(await ask(lockedMs / 2)));
  return [
    benchLine({
      goal: "R8",
      name: `p99 of a request to an agent, while the database stalls for ${lockedMs / 1_000} s`,
      floor: percentile(calm, 99),
      ours: percentile(locked, 99),
      unit: "ms",
      target: { ratioMax },
    }),
  ];
}
