import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { createClient } from "../../src/client/client.ts";
import { keys, type Replica } from "../storm/fleet.ts";
import { countLeftOnDisk } from "../storm/replica-counts.ts";
import { judgeCounts, runConcurrently } from "../storm/retry-calls.ts";
import { startSimulatedListener } from "../storm/simulated-listener.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { canContain, enterContained, isContained, runContained } from "../support/contained-process.ts";
import { eventually } from "../support/eventually.ts";
import { postgresSkipped } from "../support/postgres-server.ts";
import { countReplaced, countWrong, lookAtAll, waitUntilSettled } from "./counts.ts";
import { countEnded, type Flight, letGo, takeOff } from "./flight.ts";
import { Gates } from "./held-agent.ts";
import { openHeldCompute } from "./held-compute.ts";
import { type Installation, startOneServer, startTwoReplicas } from "./installation.ts";
import { findUnknowable, laterProgram, type Program, programAt, thisProgram } from "./programs.ts";
import * as act from "./world.ts";

/**
 * npm run upgrade [-- --from REF] [--deployments 200] [--agents 4] [--mid 6] [--turns 4] [--postgres]: replaces the program of a
 * running Pierhead by a later one, and restores the earlier one, each time with deploys in flight that wait in
 * every step, ended cleanly and by SIGKILL. Counts everything afterwards: nothing may be lost, deployed again or started again.
 *
 * The later program is a copy of this tree with one more migration; with `--from` the earlier one is that commit or tag,
 * and the later one this tree. With `--postgres` two replicas are replaced one after the other while they work.
 *
 * Ends with the line `N passed, N failed`.
 */
const { values: options } = parseArgs({
  options: {
    from: { type: "string" },
    deployments: { type: "string", default: "200" },
    agents: { type: "string", default: "4" },
    mid: { type: "string", default: "6" },
    turns: { type: "string", default: "4" },
    postgres: { type: "boolean", default: false },
  },
});
const began = performance.now();
const say = (text: string) => console.log(`${Math.round((performance.now() - began) / 1_000)} s: ${text}`);

if (isContained() || !canContain()) {
  if (isContained()) enterContained("8g");
  const { passed, failed } = await upgrade();
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed > 0 || passed === 0 ? 1 : 0);
} else {
  // A signal that ends this process also ends everything it started.
  const { child } = runContained(import.meta.filename, process.argv.slice(2), { stdio: "inherit" });
  child.once("exit", (code) => {
    process.exitCode = code ?? 1;
  });
}

async function upgrade(): Promise<{ passed: number; failed: number }> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-upgrade-"));
  await using stop = new AsyncDisposableStack();
  stop.defer(() => rm(directory, { recursive: true, force: true }));
  const made = path.join(directory, "program");
  const earlier = options.from === undefined ? await thisProgram() : await programAt(options.from, made);
  const later = options.from === undefined ? await laterProgram(made) : await thisProgram();
  const start = options.postgres ? startTwoReplicas : startOneServer;
  const installation = await start(stop, directory, earlier);
  if (installation === null) {
    console.log(postgresSkipped);
    return { passed: 0, failed: 0 };
  }
  const world = await settle(stop, directory, installation);
  const counts: Record<string, number> = {};
  const turns = turnsOf(earlier, later, await findUnknowable(earlier, later));
  for (const [turn, { to, signal }] of turns.entries()) {
    say(`to ${to.version} by ${signal}`);
    for (const [what, count] of Object.entries(await replace(world, { turn, to, signal }))) {
      counts[what] = (counts[what] ?? 0) + count;
    }
  }
  await world.gates.open(`${turns.length}-end`);
  await act.remove(world, [...world.accepted.keys()]);
  say("all are deleted");
  const replicasLeft = () => world.compute.count();
  counts["simulated replicas left"] = await eventually(replicasLeft, (count) => count === 0, {
    timeoutMs: 120_000,
  }).catch(replicasLeft);
  // A killed server removes the artifact directories it left behind when it restarts.
  for (const replica of installation.replicas) await replica.restart();
  return judgeCounts({ ...counts, ...(await countLeftOnDisk(installation.dataDirs)) });
}

interface Turn {
  to: Program;
  signal: NodeJS.Signals;
}

/** Replaces the program and restores the earlier one, with both kinds of end. Skips restoring when migrations forbid it. */
function turnsOf(earlier: Program, later: Program, unknowable: string[]): Turn[] {
  const upgrade: Turn = { to: later, signal: "SIGTERM" };
  if (unknowable.length > 0) {
    say(`the earlier program is not restored because it cannot work with ${unknowable.join(", ")}`);
    return [upgrade];
  }
  const turns: Turn[] = [
    upgrade,
    { to: earlier, signal: "SIGTERM" },
    { to: later, signal: "SIGKILL" },
    { to: earlier, signal: "SIGKILL" },
  ];
  return turns.slice(0, Number(options.turns));
}

/** Creates serving deployments on a fresh installation. */
async function settle(stop: AsyncDisposableStack, directory: string, installation: Installation): Promise<act.World> {
  const api = createClient({ baseUrl: installation.url, apiKey: keys.admin });
  const { id: listenerId, listener_key: key } = await api.createListener({
    body: { compute_type: "k8s", compute_id: "simulated", compute_config: {} },
  });
  const compute = openHeldCompute();
  const simulated = startSimulatedListener(compute, installation.url, key as string);
  stop.defer(() => simulated.stop());
  const gates = path.join(directory, "gates");
  await mkdir(gates);
  const repository = stop.use(await createAgentRepository());
  const world: act.World = {
    ...{ api, installation, compute, repository, listenerId, gates: new Gates(gates), mover: null },
    ...{ accepted: new Map(), simulated: [], agents: [], starts: new Map() },
  };
  const names = Array.from({ length: Number(options.deployments) }, (_, index) => `simulated-${index}`);
  await runConcurrently(
    names.map((name) => async () => void world.simulated.push(await act.createSimulated(world, name))),
  );
  for (let index = 0; index < Number(options.agents); index += 1) {
    world.agents.push(await act.createAgent(world, `agent-${index}`, { end: "0-end" }));
  }
  world.mover = await act.createAgent(world, "mover");
  await waitUntilSettled(world);
  for (const agent of world.agents) agent.pid = await act.findPid(world, agent);
  say(`${world.accepted.size} deployments serve`);
  return world;
}

/** Runs one replacement of the program. @returns the counts that must be 0. */
async function replace(world: act.World, { turn, to, signal }: Turn & { turn: number }) {
  const { installation } = world;
  const flight = await takeOff(world, turn, Number(options.mid));
  const before = await lookAtAll(world);
  say("deploys wait in every step");
  const stopCreating = act.createAlways(world, `during-${turn}`);
  const unanswered = installation.listener === null ? 0 : await replaceReplicas(world, { turn, to, signal });
  if (installation.listener === null) await restart(installation.replicas[0] as Replica, to, signal);
  say(`${await stopCreating()} creates were answered meanwhile`);
  const ended = await countEnded(world, flight);
  await liveOn(world, `after-${turn}`);
  await letGo(world, flight);
  await waitUntilSettled(world);
  say("all have settled");
  const replaced = await countReplaced(world, touchedBy(flight));
  return {
    "deploys that did not wait": ended,
    "requests that agents did not answer while replicas were replaced": unanswered,
    "agents that are another process": replaced,
    ...(await countWrong(world, before)),
  };
}

function touchedBy({ agents }: Flight): Set<string> {
  return new Set(Object.values(agents).flatMap((some) => some.map(({ id }) => id)));
}

/** Replaces replicas one after the other, so both programs work in between, then the listener. @returns failed requests. */
async function replaceReplicas(world: act.World, { turn, to, signal }: Turn & { turn: number }): Promise<number> {
  const { replicas, listener } = world.installation;
  const untouched = world.agents.filter((_, index) => index % 4 === 0);
  const stopAsking = act.askAlways(world, await Promise.all(untouched.map((agent) => act.pathOf(world, agent))));
  for (const [index, replica] of replicas.entries()) {
    await restart(replica, to, signal);
    await liveOn(world, `replica-${index}-of-${turn}`);
  }
  const { asked, failed } = await stopAsking();
  say(`${asked} requests were made to agents meanwhile`);
  if (listener !== null) {
    listener.program = to.directory;
    await listener.end(signal);
    await listener.start();
  }
  return failed;
}

async function restart(replica: Replica, to: Program, signal: NodeJS.Signals): Promise<void> {
  replica.program = to.directory;
  await replica.restart(signal);
  const { version } = (await (await fetch(`${replica.url}/info`)).json()) as { version: string };
  if (version !== to.version) throw new Error(`${version} runs where ${to.version} was started`);
}

/** Creates, updates, rolls back and deletes deployments as usual: simulated ones, and one that is built from git. */
async function liveOn(world: act.World, name: string): Promise<void> {
  const made = await Promise.all([1, 2, 3].map((number) => act.createSimulated(world, `${name}-${number}`)));
  const mover = world.mover as act.Agent;
  const version = `mover.${name}`;
  const commit = await world.repository.commit(world.gates.agent(version));
  world.starts.set(version, 1);
  const served = () => act.waitForStatus(world, [...made, mover.id], "DEPLOYED");
  await act.waitForStatus(world, made, "DEPLOYED");
  for (const id of made) await act.update(world, id, { image_uri: "registry.invalid/agent:2" });
  await act.update(world, mover.id, { repo_ref: commit });
  await served();
  for (const id of [...made, mover.id]) await act.rollBack(world, id);
  world.starts.set("mover.0", (world.starts.get("mover.0") ?? 0) + 1);
  await served();
  await act.remove(world, made);
}
