import { writeFileSync } from "node:fs";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { type Client, createClient } from "../../src/client/client.ts";
import { deploymentLeaseMs } from "../../src/domain/limits.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { fakeTimeEnvironment, fakeTimeSkipped, findFakeTime } from "../support/fake-time.ts";
import { freePort } from "../support/free-port.ts";
import { postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { startBalancer } from "./balancer.ts";
import { keys, ListenerProcess, type Replica, startHarm, startReplicas } from "./fleet.ts";
import { openRecordingCompute, type RecordingCompute } from "./recording-compute.ts";
import {
  countLeft,
  countWrong,
  findFailures,
  findGivenUp,
  updatedOf,
  waitUntilGone,
  waitUntilSettled,
} from "./replica-counts.ts";
import { judgeCounts, retryUntilAnswered, runConcurrently } from "./retry-calls.ts";
import { openSimulatedBuilds, type SimulatedBuilds } from "./simulated-builds.ts";
import { startSimulatedListener } from "./simulated-listener.ts";
import { Clocks } from "./skewed-clocks.ts";
import { countObjectsLeft, countWrongImages, createUploaded, type UploadStorm } from "./uploaded-agents.ts";

export interface ReplicaStorm {
  replicas: number;
  /** Deployments on simulated compute. */
  deployments: number;
  /** Deployments on process compute, each built from its own commit. */
  agents: number;
  /** Longest freeze of a replica. Leases last 30 s. */
  freezeMs: number;
  /** Pause between faults of one kind. Default: 2 s. */
  pauseMs?: number;
  /** Offset of the clocks of replicas and listener, one ahead and one behind; 0 for none. */
  skewMinutes: number;
  /** How far the clock of PostgreSQL jumps, forward and back; 0 for never. */
  jumpMinutes: number;
  /** Deployments from uploads in a bucket; absent: none. */
  uploads?: UploadStorm;
}

/** The listener is killed repeatedly and the machine is busy, so this limit measures nothing. */
const settleTimeoutMs = 240_000;

interface World {
  api: Client;
  db: pg.Client;
  compute: RecordingCompute;
  builds: SimulatedBuilds;
  agents: { id: string; version: string }[];
  /** Deployments whose images were built from their uploads. */
  images: { id: string; version: string }[];
  /** Ids of all deployments whose create was answered. */
  accepted: Map<string, string>;
  listenerId: string;
  repository: { url: string; commit(files: Record<string, string>): Promise<string> };
}

/**
 * Runs several control planes on one PostgreSQL and kills, freezes and restarts them while deployments are created, updated and
 * deleted. Counts everything afterwards. @returns how many counts were right and how many were wrong.
 */
export async function stormReplicas(storm: ReplicaStorm): Promise<{ passed: number; failed: number }> {
  const library = findFakeTime();
  const [isSkewed, isSet] = [storm.skewMinutes !== 0, storm.jumpMinutes !== 0];
  if (library === undefined && (isSkewed || isSet)) {
    console.log(fakeTimeSkipped);
    return { passed: 0, failed: 0 };
  }
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-replicas-"));
  // PostgreSQL runs as a separate user and must be able to enter.
  await chmod(directory, 0o711);
  const databaseClock = path.join(directory, "clock");
  await writeFile(databaseClock, "+0");
  const environment = isSet ? fakeTimeEnvironment(library as string, databaseClock) : {};
  const postgres = await startPostgresServer({ environment });
  if (postgres === undefined) {
    await rm(directory, { recursive: true });
    console.log(postgresSkipped);
    return { passed: 0, failed: 0 };
  }
  const db = new pg.Client({ connectionString: postgres.url });
  const stop = new AsyncDisposableStack();
  stop.defer(() => rm(directory, { recursive: true, force: true }));
  stop.defer(() => postgres.stop());
  try {
    await db.connect();
    stop.defer(() => db.end());
    const { skewMinutes } = storm;
    const clocks = isSkewed && library !== undefined ? new Clocks({ directory, library, skewMinutes }) : undefined;
    const { replicas: count } = storm;
    const replicas = await startReplicas({
      ...{ directory, count, databaseUrl: postgres.url },
      ...(clocks && { clocks }),
      ...(storm.uploads && { environment: storm.uploads.environment }),
    });
    for (const replica of replicas) stop.defer(() => replica.server.stop());
    const balancer = stop.use(await startBalancer(replicas.map(({ url }) => url)));
    const listenerDir = path.join(directory, "listener");
    const listener = new ListenerProcess(listenerDir, await freePort(), balancer.url, await clocks?.next());
    await listener.start();
    stop.defer(() => listener.end("SIGTERM"));
    const others = await clocks?.countOthers([...replicas, listener].map(({ url }) => `${url}/ok`));
    if (others) throw new Error(`${others} clocks differ from their setting`);
    const api = createClient({ baseUrl: balancer.url, apiKey: keys.admin });
    const { id, listener_key: key } = await api.createListener({
      body: { compute_type: "k8s", compute_id: "simulated", compute_config: {} },
    });
    const compute = openRecordingCompute({ seed: 1 });
    const builds = openSimulatedBuilds();
    const simulated = startSimulatedListener(compute, balancer.url, key as string, {
      ...{ builds, registry: builds.registry },
    });
    stop.defer(() => simulated.stop());
    const repository = stop.use(await createAgentRepository());
    if (isSet) stop.use(setClock(databaseClock, storm.jumpMinutes));
    const world = {
      ...{ api, db, compute, builds, listenerId: id, repository },
      ...{ agents: [], images: [], accepted: new Map() },
    };
    return await liveThrough(world, storm, replicas, listener);
  } finally {
    await stop.disposeAsync();
  }
}

/** Sets the clock forward and back, with time in between for servers to notice. */
function setClock(file: string, minutes: number): Disposable {
  let isAhead = false;
  const timer = setInterval(() => {
    isAhead = !isAhead;
    writeFileSync(file, `+${isAhead ? minutes * 60 : 0}`);
  }, 6_000);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

async function liveThrough(world: World, storm: ReplicaStorm, replicas: Replica[], listener: ListenerProcess) {
  const began = performance.now();
  const say = (text: string) => console.log(`${Math.round((performance.now() - began) / 1_000)} s: ${text}`);
  const harm = startHarm(replicas, listener, { pauseMs: storm.pauseMs ?? 2_000, freezeMsMax: storm.freezeMs });
  const counts: Record<string, number> = {};
  try {
    await createAll(world, storm);
    say(`${world.accepted.size} creates were answered`);
    await updateSome(world);
    say("every fourth was updated");
    await waitUntilSettled(world.db);
    say("all have settled");
    Object.assign(counts, await countWrong(world.db, world.accepted));
    const givenUp = new Set(await findGivenUp(world.db));
    say(`${givenUp.size} builds were given up, as their servers died three times`);
    for (const failure of await findFailures(world.db)) say(failure);
    world.agents = world.agents.filter(({ id }) => !givenUp.has(id));
    Object.assign(counts, await countSilent(world, listener.url));
    const images = world.images.filter(({ id }) => !givenUp.has(id));
    if (storm.uploads !== undefined) Object.assign(counts, await countWrongImages(world.db, images, world.builds));
    await deleteAll(world);
    await waitUntilGone(world.db);
    say("all are deleted");
  } finally {
    const { kills, freezes, restarts, listenerKills } = await harm.stop();
    say(`replicas: ${kills} killed, ${freezes} frozen, ${restarts} restarted; listener: ${listenerKills} killed`);
  }
  counts["work that the driver received twice"] = world.compute.wrong.length;
  for (const wrong of world.compute.wrong.slice(0, 5)) say(wrong);
  await eventually(
    () => world.compute.count(),
    (count) => count === 0,
    { what: "no simulated replica", timeoutMs: settleTimeoutMs },
  );
  const found = await corrections(replicas);
  // A replica frozen for longer than a lease continues passes that others have finished. Its own resync notices first.
  if (storm.freezeMs < deploymentLeaseMs) counts["lost changes that a resync found"] = found;
  else say(`${found} changes were found by a resync`);
  // A killed server removes the artifact directories it left behind when it restarts.
  for (const replica of replicas) await replica.restart();
  const dataDirs = [...replicas.map(({ dataDir }) => dataDir), listener.dataDir];
  Object.assign(counts, await countLeft(world.db, dataDirs));
  if (storm.uploads !== undefined) Object.assign(counts, await countObjectsLeft(storm.uploads));
  return judgeCounts(counts);
}

async function createAll(world: World, storm: ReplicaStorm): Promise<void> {
  const simulated = Array.from({ length: storm.deployments }, (_, index) => () => createSimulated(world, index));
  // Each agent has its own commit, because one commit would be built once for all.
  const agents: (() => Promise<void>)[] = [];
  for (let index = 0; index < storm.agents; index += 1) {
    const name = `agent-${index}`;
    const commit = await world.repository.commit(nodeAgent(name));
    agents.push(() => createAgent(world, name, commit));
  }
  for (let index = 0; index < (storm.uploads?.agents ?? 0); index += 1)
    agents.push(() => upload(world, world.agents, `uploaded-${index}`, null));
  for (let index = 0; index < (storm.uploads?.images ?? 0); index += 1)
    agents.push(() => upload(world, world.images, `image-${index}`, world.listenerId));
  // Spread between the others, from beginning to end.
  const every = Math.max(1, Math.floor(storm.deployments / Math.max(1, agents.length)));
  const work = simulated.flatMap((one, index) => (index % every === 0 ? [agents.shift() ?? [], one].flat() : [one]));
  await runConcurrently([...work, ...agents]);
}

async function createSimulated({ api, accepted, listenerId }: World, index: number): Promise<void> {
  const name = `storm-${index}`;
  const body = {
    ...{ name, source: "external_docker" as const, source_config: { listener_id: listenerId } },
    source_revision_config: { image_uri: "registry.invalid/agent:1" },
  };
  const { id } = await retryUntilAnswered((idempotencyKey) => api.createDeployment({ body }, { idempotencyKey }));
  accepted.set(id, name);
}

async function createAgent({ api, accepted, agents, repository }: World, name: string, commit: string) {
  const body = {
    ...{ name, source: "github" as const },
    source_config: { repo_url: repository.url, build_on_push: false, deployment_type: "dev" as const },
    source_revision_config: { repo_ref: commit, langgraph_config_path: "pierhead.json" },
  };
  const { id } = await retryUntilAnswered((idempotencyKey) => api.createDeployment({ body }, { idempotencyKey }));
  accepted.set(id, name);
  agents.push({ id, version: name });
}

async function upload({ api, accepted }: World, made: World["agents"], name: string, listenerId: string | null) {
  const id = await createUploaded(api, { name, listenerId });
  accepted.set(id, name);
  made.push({ id, version: name });
}

/** Creates a second revision for every fourth deployment, whether or not its first one succeeded. */
async function updateSome({ api, accepted }: World): Promise<void> {
  const ids = updatedOf(accepted);
  const body = { source_revision_config: { image_uri: "registry.invalid/agent:2" } };
  await runConcurrently(
    ids.map(
      (id) => () =>
        retryUntilAnswered((idempotencyKey) => api.patchDeployment({ deployment_id: id, body }, { idempotencyKey })),
    ),
  );
}

async function deleteAll({ api, accepted }: World): Promise<void> {
  await runConcurrently(
    [...accepted.keys()].map(
      (id) => () =>
        retryUntilAnswered((idempotencyKey) => api.deleteDeployment({ deployment_id: id }, { idempotencyKey })),
    ),
  );
}

/** Counts agents that do not answer through their listener's gateway, or answer as another version. */
async function countSilent({ api, agents }: World, listenerUrl: string): Promise<Record<string, number>> {
  let silent = 0;
  for (const { id, version } of agents) {
    const { url } = await retryUntilAnswered(() => api.getDeployment({ deployment_id: id }));
    const address = `${listenerUrl}${new URL(url ?? "").pathname}/version`;
    // A listener that was just killed has to find its agents first.
    const answers = () => fetch(address).then((answer) => answer.text(), String);
    await eventually(answers, (text) => text.includes(`"${version}"`), { timeoutMs: settleTimeoutMs }).catch(() => {
      silent += 1;
    });
  }
  return { "agents that do not answer": silent };
}

/** Sums the counter of the running servers, because a counter ends with its server. */
async function corrections(replicas: Replica[]): Promise<number> {
  let sum = 0;
  for (const { url } of replicas) {
    const text = await (await fetch(`${url}/metrics`)).text();
    sum += Number(/^pierhead_resync_corrections_total (\d+)/m.exec(text)?.[1] ?? Number.NaN);
  }
  return sum;
}
