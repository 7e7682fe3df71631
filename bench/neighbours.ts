import { fork, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type Client, createClient } from "../src/client/client.ts";
import { openSimulatedCompute } from "../src/compute/simulated.ts";
import { makeWorkspace, type Workspace } from "../test/security/two-workspaces.ts";
import { startSimulatedListener } from "../test/storm/simulated-listener.ts";
import { type AgentRepository, nodeAgent } from "../test/support/agent-repository.ts";
import { type AttackName, type AttackSite, attackFiles, attacks, burst, createAgent, newest } from "./attacks.ts";
import { settled } from "./deploy.ts";
import { toBeEnded } from "./endings.ts";
import type { BenchRun, BenchServer, DatabaseKind } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";
import { runLoad } from "./load.ts";

/**
 * The median of the rounds counts, because another program on the machine may disturb one round. The p99 of 150 requests is
 * the second slowest, so one pause doubles it, with or without an attack: a full round makes about 400.
 */
const plans = {
  small: { rounds: 3, loadMs: 200, deploys: 1, builds: 1 },
  full: { rounds: 5, loadMs: 2_500, deploys: 5, builds: 3 },
};

/** Far from saturation, because waiting for the processor would hide waiting for other work. */
const connections = 2;

/** Keeps the load below the default rate limit of a key, as a console and a few people do. */
const pauseMs = 10;

const ratioMax = 2;
const timeoutMs = 120_000;

/** Hanging builds: more than any number of slots. */
const hangingBuilds = 6;

interface Stage {
  server: BenchServer;
  attacker: Workspace;
  victim: Workspace;
  repository: AgentRepository;
  site: AttackSite;
  served: { id: string; path: string };
  /** The victim's listener, with simulated replicas. */
  listenerId: string;
}

const measures = {
  read: "reading a deployment",
  call: "a request to an agent",
  deploy: "image to DEPLOYED",
  build: "commit to the start of its build",
} as const;

type Measure = keyof typeof measures;

/** p99 of each round, in milliseconds. */
type Rounds = Record<Measure, number[]>;

const none = (): Rounds => ({ read: [], call: [], deploy: [], build: [] });

/**
 * Measures what one workspace notices while another does its worst in each of seven ways, on a server with the default
 * limits. Each attack is compared with quiet rounds right before and after it, and runs in a process of its own.
 */
export async function neighbourLines(run: BenchRun, kind: DatabaseKind, repository: AgentRepository) {
  await using installation = await run.install(kind);
  const limits = {
    PIERHEAD_RATE_LIMIT: "250",
    PIERHEAD_RATE_LIMIT_BURST: String(burst),
    PIERHEAD_LOG_LINES_PER_S: "2000",
  };
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "process", ...limits });
  const operator = createClient({ baseUrl: server.url, apiKey: installation.adminKey });
  const world = { client: operator, url: server.url };
  const [attacker, victim] = [await makeWorkspace(world), await makeWorkspace(world)];
  const { id: listenerId, listener_key: key } = await victim.api.createListener({
    body: { compute_type: "k8s", compute_id: "simulated", compute_config: {} },
  });
  const listener = startSimulatedListener(openSimulatedCompute({ seed: 1 }), server.url, key as string);
  const stopListener = toBeEnded(() => listener.stop());
  try {
    const served = await serve(victim.api, repository);
    const site = await siteOf(server, attacker, repository);
    const stage: Stage = { server, attacker, victim, repository, site, served, listenerId };
    await measure(stage, { loadMs: 200, deploys: 1, builds: 1 }, none());
    const lines: BenchLine[] = [];
    for (const name of attacksOf(run)) lines.push(...(await attackLines(stage, name, run, kind)));
    return lines;
  } finally {
    await removeAll(victim.api);
    await stopListener();
    await server.stop();
  }
}

/** A full run makes all attacks. A small one makes two, which the commit chooses, so that all are made in turn. */
function attacksOf({ size }: BenchRun): AttackName[] {
  const names = Object.keys(attacks) as AttackName[];
  if (size === "full") return names;
  const head = spawnSync("git", ["rev-parse", "--short=6", "HEAD"], { encoding: "utf8" }).stdout;
  const first = Number.parseInt(head, 16) || 0;
  const chosen = [0, 1].map((step) => names[(first + step) % names.length] as AttackName);
  process.stderr.write(
    `isolation: this commit makes the attacks ${chosen.join(" and ")}; --size full makes all ${names.length}\n`,
  );
  return chosen;
}

async function attackLines(
  stage: Stage,
  name: AttackName,
  { size }: BenchRun,
  kind: DatabaseKind,
): Promise<BenchLine[]> {
  const plan = plans[size];
  const [quiet, attacked] = [none(), none()];
  const rounds = async (count: number, into: Rounds) => {
    for (let round = 0; round < count; round += 1) await measure(stage, plan, into);
  };
  // Before and after, so that a machine that slows down meanwhile counts on both sides.
  const before = Math.ceil(plan.rounds / 2);
  await rounds(before, quiet);
  const end = await attack(name, stage.site);
  await rounds(plan.rounds, attacked);
  await end();
  await removeAll(stage.attacker.api);
  await rounds(plan.rounds - before, quiet);
  return Object.entries(measures).map(([key, words]) =>
    benchLine({
      goal: "R8",
      name: `p99 of ${words}, while another workspace does its worst with ${name}, on ${kind}`,
      floor: median(quiet[key as Measure]),
      ours: median(attacked[key as Measure]),
      unit: "ms",
      target: { ratioMax },
    }),
  );
}

/** Starts an attack. @returns a function that ends it. */
async function attack(name: AttackName, site: AttackSite): Promise<() => Promise<void>> {
  const file = fileURLToPath(new URL("attack-process.ts", import.meta.url));
  const child = fork(file, [name, JSON.stringify(site)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const ended = once(child, "exit");
  const end = toBeEnded(async () => {
    if (child.connected) child.disconnect();
    await ended;
  });
  const [message] = await Promise.race([once(child, "message"), ended]);
  if (typeof message !== "object") throw new Error(`the attack with ${name} ended with exit code ${message}`);
  return end;
}

async function measure(stage: Stage, plan: Omit<(typeof plans)["full"], "rounds">, rounds: Rounds): Promise<void> {
  const { server, victim, served } = stage;
  const load = async (path: string, header = "") => {
    const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${header}\r\n`;
    const { failed, latenciesMs } = await runLoad({
      port: server.port,
      request,
      connections,
      durationMs: plan.loadMs,
      pauseMs,
    });
    if (failed > 0) throw new Error(`${failed} of ${latenciesMs.length} requests of ${path} failed`);
    return percentile(latenciesMs, 99);
  };
  rounds.read.push(await load(`/v2/deployments/${served.id}`, `X-Api-Key: ${victim.apiKey}\r\n`));
  rounds.call.push(await load(`${served.path}/version`));
  rounds.deploy.push(await worst(plan.deploys, () => deployImage(stage)));
  rounds.build.push(await worst(plan.builds, () => beginBuild(stage)));
}

/** Returns the p99 of so few samples, which is the worst one. */
async function worst(count: number, act: () => Promise<number>): Promise<number> {
  const samples: number[] = [];
  for (let turn = 0; turn < count; turn += 1) samples.push(await act());
  return percentile(samples, 99);
}

async function deployImage({ victim: { api }, listenerId }: Stage): Promise<number> {
  const beganAt = performance.now();
  const { id, latest_revision_id: revisionId } = await api.createDeployment({
    body: {
      ...{ name: `bench-${randomUUID()}`, source: "external_docker" },
      source_config: { listener_id: listenerId },
      source_revision_config: { image_uri: "registry.invalid/agent:1" },
    },
  });
  await settled(api, id, revisionId as string, "DEPLOYED", timeoutMs);
  const tookMs = performance.now() - beganAt;
  await remove(api, [id]);
  return tookMs;
}

async function beginBuild({ victim: { api }, site, repository }: Stage): Promise<number> {
  const commit = await repository.commit(nodeAgent(randomUUID()));
  const beganAt = performance.now();
  const { id } = await createAgent(api, site, commit);
  for (;;) {
    const status = await newest(api, id);
    if (status === "BUILDING" || status === "AWAITING_DEPLOY" || status === "DEPLOYING" || status === "DEPLOYED") break;
    if (status?.endsWith("FAILED") || performance.now() - beganAt > timeoutMs)
      throw new Error(`the build is ${status}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const tookMs = performance.now() - beganAt;
  await remove(api, [id]);
  return tookMs;
}

async function siteOf({ url }: BenchServer, { apiKey }: Workspace, repository: AgentRepository): Promise<AttackSite> {
  const files = attackFiles();
  const hanging: string[] = [];
  for (let count = 0; count < hangingBuilds; count += 1) hanging.push(await repository.commit(files.hanging()));
  const logging = await repository.commit(files.logging);
  const slow = await repository.commit(nodeAgent("slow"));
  return { url, apiKey, repositoryUrl: repository.url, commits: { hanging, logging, slow } };
}

async function serve(api: Client, repository: AgentRepository): Promise<Stage["served"]> {
  const commit = await repository.commit(nodeAgent("served"));
  const { id, latest_revision_id: revision } = await createAgent(api, { repositoryUrl: repository.url }, commit);
  await settled(api, id, revision as string, "DEPLOYED", timeoutMs);
  const { url } = await api.getDeployment({ deployment_id: id });
  return { id, path: new URL(url ?? "").pathname };
}

async function removeAll(api: Client): Promise<void> {
  const ids: string[] = [];
  for await (const { id } of api.all("listDeployments")) ids.push(id);
  await remove(api, ids);
}

async function remove(api: Client, ids: string[]): Promise<void> {
  for (const id of ids) await api.deleteDeployment({ deployment_id: id });
  for (const id of ids) await api.waitForDeletion({ deployment_id: id }, { timeoutMs });
}
