import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type Client, createClient } from "../../src/client/client.ts";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { type PostgresServer, postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { keys, ListenerProcess, type Replica, startReplicas } from "./fleet.ts";
import { countLeft } from "./replica-counts.ts";
import { judgeCounts, retryUntilAnswered, runConcurrently } from "./retry-calls.ts";

/** Number of agents. Each deploy takes the next one. */
const agentsMax = 4;

/** The machine is busy, so this limit measures nothing. The output shows how long it took. */
const settleTimeoutMs = 240_000;

interface World {
  /** Parent of all data directories, which tells our processes from others with the same marks. */
  home: string;
  api: Client;
  databaseUrl: string;
  postgres: PostgresServer;
  replica: Replica;
  listener: ListenerProcess;
  repository: AgentRepository;
  agents: Agent[];
}

interface Agent {
  id: string;
  /** Response of its active revision. */
  version: string;
}

/** Kills one process of its kind some time after a deploy began, and restarts it where nothing else does. */
type Victim = (world: World, afterMs: number) => Promise<void>;

/** Deaths are spread over this much of a deploy. */
const spreadMs = 1_500;

/** How long a build takes at least, so that a kill hits it; longer for the build that is the victim. */
const [buildMs, victimBuildMs] = [700, 3_000];
const buildSpreadMs = 500;

const victims: Record<string, Victim> = {
  "an agent": async (world, afterMs) => {
    await sleep(afterMs);
    killOne(await marked(world, "PIERHEAD_REPLICA_ID"));
  },
  "a build": async (world, afterMs) => {
    await marked(world, "PIERHEAD_BUILD_ID");
    await sleep(afterMs % buildSpreadMs);
    killOne(await marked(world, "PIERHEAD_BUILD_ID"));
  },
  "the listener": async ({ listener }, afterMs) => {
    await sleep(afterMs);
    await listener.end("SIGKILL");
    await listener.start();
  },
  "the server": async ({ replica }, afterMs) => {
    await sleep(afterMs);
    await replica.restart("SIGKILL");
  },
  PostgreSQL: async ({ postgres }, afterMs) => {
    await sleep(afterMs);
    await postgres.crash();
  },
};

/**
 * Kills each program that a deploy needs in the middle of one, `times` each, on a server with PostgreSQL and a
 * separate listener. After each death every deployment must serve again: the new revision or the previous one.
 * @returns how many deaths and counts were right and how many were wrong.
 */
export async function stormVictims(times: number): Promise<{ passed: number; failed: number }> {
  const postgres = await startPostgresServer();
  if (postgres === undefined) {
    console.log(postgresSkipped);
    return { passed: 0, failed: 0 };
  }
  await using stop = new AsyncDisposableStack();
  const home = await mkdtemp(path.join(tmpdir(), "pierhead-victims-"));
  stop.defer(() => rm(home, { recursive: true, force: true }));
  stop.defer(() => postgres.stop());
  const [replica] = await startReplicas({ directory: home, count: 1, databaseUrl: postgres.url });
  if (replica === undefined) throw new Error("no server");
  stop.defer(() => replica.server.stop());
  const listener = new ListenerProcess(path.join(home, "listener"), await freePort(), replica.url);
  await listener.start();
  stop.defer(() => listener.end("SIGTERM"));
  const repository = stop.use(await createAgentRepository());
  const api = createClient({ baseUrl: replica.url, apiKey: keys.admin });
  const world = { home, api, databaseUrl: postgres.url, postgres, replica, listener, repository, agents: [] };
  await createAgents(world);
  const deaths = await killAll(world, times);
  const left = judgeCounts(await countAfter(world));
  return { passed: deaths.passed + left.passed, failed: deaths.failed + left.failed };
}

async function createAgents(world: World): Promise<void> {
  for (let index = 0; index < agentsMax; index += 1) {
    const version = `agent-${index}`;
    const ref = await world.repository.commit(slowly(version));
    const body = {
      ...{ name: version, source: "github" as const },
      source_config: { repo_url: world.repository.url, build_on_push: false, deployment_type: "dev" as const },
      source_revision_config: { repo_ref: ref, langgraph_config_path: "pierhead.json" },
    };
    const { id } = await world.api.createDeployment({ body });
    world.agents.push({ id, version });
  }
  for (const agent of world.agents) await settledRevision(world, agent);
  await allServe(world);
}

/** The build takes a moment, so that a kill can hit it. */
function slowly(version: string, ms = buildMs): Record<string, string> {
  const build = ["node", "-e", `setTimeout(() => {}, ${ms})`];
  return { ...nodeAgent(version), "pierhead.json": JSON.stringify({ build, start: ["node", "server.js"] }) };
}

async function killAll(world: World, times: number) {
  const counts = { passed: 0, failed: 0 };
  for (const [name, kill] of Object.entries(victims)) {
    const tookMs: number[] = [];
    for (let time = 0; time < times; time += 1) {
      try {
        const version = `${name.replaceAll(" ", "-")}-${time}`;
        // Takes turns, because a revision that is killed more than a few times backs off like a crash loop.
        const agent = world.agents[time % world.agents.length] as Agent;
        tookMs.push(await dieOnce({ ...world, agent }, kill, version, (time * 397) % spreadMs));
        counts.passed += 1;
      } catch (error) {
        counts.failed += 1;
        console.log(`FAIL ${name} was killed, time ${time + 1}: ${error instanceof Error ? error.stack : error}`);
      }
    }
    const [median, most] = [0.5, 1].map(
      (share) => tookMs.toSorted((a, b) => a - b)[Math.ceil(share * tookMs.length) - 1],
    );
    console.log(`${name} was killed ${times} times; all served again after ${median} ms, ${most} ms at most`);
  }
  return counts;
}

/** Deploys one agent and kills in the middle of it. @returns milliseconds until everything settled afterwards. */
async function dieOnce(
  world: World & { agent: Agent },
  kill: Victim,
  version: string,
  afterMs: number,
): Promise<number> {
  const { agent } = world;
  const isBuild = kill === victims["a build"];
  const ref = await world.repository.commit(slowly(version, isBuild ? victimBuildMs : buildMs));
  const body = { source_revision_config: { repo_ref: ref } };
  await retryUntilAnswered((idempotencyKey) =>
    world.api.patchDeployment({ deployment_id: agent.id, body }, { idempotencyKey }),
  );
  let began = performance.now();
  try {
    await kill(world, afterMs);
  } finally {
    began = performance.now();
    // Also when the kill hit nothing: the next death starts from the actual state.
    if ((await settledRevision(world, agent)) === "DEPLOYED") agent.version = version;
  }
  await allServe(world);
  return Math.round(performance.now() - began);
}

/** @returns DEPLOYED, or the failed status. @throws when a failure has no reason. */
async function settledRevision({ api }: World, { id }: Agent): Promise<string> {
  const { status, status_message: why } = (await eventually(
    () => retryUntilAnswered(async () => (await api.listRevisions({ deployment_id: id, limit: 1 })).resources[0]),
    (revision) => revision !== undefined && /DEPLOYED|FAILED/.test(revision.status),
    { timeoutMs: settleTimeoutMs, what: "the revision" },
  )) as { status: string; status_message: string | null };
  if (status !== "DEPLOYED" && (why ?? "").length < 10) throw new Error(`${status} without a reason: ${why}`);
  return status;
}

/** Asserts that each agent answers through its listener's gateway as its active revision, and is not called failed. */
async function allServe({ agents, listener, api }: World): Promise<void> {
  for (const { id, version } of agents) {
    const health = async () => (await retryUntilAnswered(() => api.getDeployment({ deployment_id: id }))).health.status;
    const isServing = (word: string) => {
      if (word === "failed") throw new Error(`${version} serves and is called failed`);
      return ["live", "degraded", "crash_looping"].includes(word);
    };
    await eventually(health, isServing, { timeoutMs: settleTimeoutMs, what: `the health of ${version}` });
    const { url } = await retryUntilAnswered(() => api.getDeployment({ deployment_id: id }));
    const address = `${listener.url}${new URL(url ?? "").pathname}/version`;
    const answers = () => fetch(address).then((answer) => answer.text(), String);
    await eventually(answers, (text) => text.includes(`"${version}"`), { timeoutMs: settleTimeoutMs, what: version });
  }
}

/** Waits until processes of this storm carry a mark. @returns their ids, at least one. */
async function marked({ home }: World, mark: string): Promise<number[]> {
  const found = async () => {
    const pids = (await readdir("/proc")).filter((pid) => /^\d+$/.test(pid));
    const ours = await Promise.all(
      pids.map(async (pid) => ((await isMarked(pid, { home, mark })) ? [Number(pid)] : [])),
    );
    return ours.flat();
  };
  return eventually(found, ({ length }) => length > 0, { timeoutMs: 60_000, what: `a process with ${mark}` });
}

/** Kills one of these processes. */
function killOne(pids: readonly number[]): void {
  try {
    process.kill(pids[Math.floor(Math.random() * pids.length)] as number, "SIGKILL");
  } catch {
    // It ended on its own in between.
  }
}

async function isMarked(pid: string, { home, mark }: { home: string; mark: string }): Promise<boolean> {
  const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
  return environment.includes(home) && environment.split("\0").some((one) => one.startsWith(`${mark}=`));
}

/** Counts leftovers: while all serve, and after all is deleted. */
async function countAfter({ api, agents, databaseUrl, replica, listener }: World): Promise<Record<string, number>> {
  const db = new pg.Client({ connectionString: databaseUrl });
  await db.connect();
  try {
    const { rows } = await db.query(`select count(*)::int as count from (select 1 from events
      where kind = 'revision.status' group by revision_id, data ->> 'from', data ->> 'to' having count(*) > 1) twice`);
    await runConcurrently(
      agents.map(
        ({ id }) =>
          () =>
            retryUntilAnswered(() => api.deleteDeployment({ deployment_id: id })),
      ),
    );
    for (const { id } of agents) await api.waitForDeletion({ deployment_id: id }, { timeoutMs: settleTimeoutMs });
    // A killed server removes the build directories it left behind when it restarts.
    await replica.restart();
    const left = await countLeft(db, [replica.dataDir, listener.dataDir]);
    return { "status moves made twice": rows[0].count, ...left };
  } finally {
    await db.end();
  }
}
