import { retryUntilAnswered, runConcurrently } from "../storm/retry-calls.ts";
import { eventually } from "../support/eventually.ts";
import { type Agent, settleTimeoutMs, update, type World, waitForStatus } from "./world.ts";

/**
 * Deploys that wait in each of their steps until they are released. Of the simulated deployments, half have replicas that
 * are starting, half have replicas of the previous revision that are ending. Of the agents, a fourth each is building, starting and ending. The
 * last fourth is not touched.
 */
export interface Flight {
  turn: number;
  starting: string[];
  ending: string[];
  agents: { build: Agent[]; ready: Agent[]; end: Agent[] };
}

export async function takeOff(world: World, turn: number, mid: number): Promise<Flight> {
  const ids = Array.from({ length: mid }, (_, index) => world.simulated[(turn * mid + index) % world.simulated.length]);
  const half = Math.ceil(mid / 2);
  const of = (remainder: number) => world.agents.filter((_, index) => index % 4 === remainder);
  const flight: Flight = {
    turn,
    starting: ids.slice(0, half) as string[],
    ending: ids.slice(half) as string[],
    agents: { build: of(1), ready: of(2), end: of(3) },
  };
  const { compute } = world;
  compute.hold("start", flight.starting);
  compute.hold("end", flight.ending);
  const image = { image_uri: `registry.invalid/agent:turn-${turn}` };
  await runConcurrently([...flight.starting, ...flight.ending].map((id) => () => update(world, id, image)));
  for (const [held, agents] of Object.entries(flight.agents)) {
    for (const agent of agents) await updateHeld(world, agent, { turn, held });
  }
  await untilHeld(world, flight);
  return flight;
}

/** The agent of the previous turn ends slowly. Its source names the gate that ends it in the next turn. */
async function updateHeld(world: World, agent: Agent, { turn, held }: { turn: number; held: string }): Promise<void> {
  const version = versionOf(agent, turn);
  const gate = held === "end" ? { end: `${turn + 1}-end` } : { [held]: `${turn}-${held}` };
  const commit = await world.repository.commit(world.gates.agent(version, gate));
  await update(world, agent.id, { repo_ref: commit });
  world.starts.set(version, 1);
}

const versionOf = ({ name }: Agent, turn: number) => `${name}.${turn + 1}`;

/** Phases that each deploy stays in. */
async function untilHeld(world: World, { turn, starting, ending, agents }: Flight): Promise<void> {
  const { compute, gates } = world;
  await waitForStatus(world, [...starting, ...agents.ready.map(({ id }) => id)], "DEPLOYING");
  await waitForStatus(world, [...ending, ...agents.end.map(({ id }) => id)], "DEPLOYED");
  await waitForStatus(
    world,
    agents.build.map(({ id }) => id),
    "BUILDING",
  );
  const until = (what: string, holds: () => Promise<boolean> | boolean) =>
    eventually(holds, (isHeld) => isHeld, { what, timeoutMs: settleTimeoutMs });
  await until("replicas that start", () => isWithin(starting, compute.in("starting")));
  await until("replicas that end", () => isWithin(ending, compute.in("stopping")));
  for (const agent of agents.build) {
    await until("a build", async () => (await gates.count(`building-${versionOf(agent, turn)}-`)) > 0);
  }
  for (const agent of agents.ready) {
    await until("a start", async () => (await gates.count(`started-${versionOf(agent, turn)}-`)) > 0);
  }
  for (const agent of agents.end) {
    await until("an end", async () => (await gates.count(`ending-${versionOf(agent, turn - 1)}-`)) > 0);
  }
}

const isWithin = (ids: string[], others: Set<string>) => ids.every((id) => others.has(id));

/** Returns the deploys that did not wait: they ended although their step was held. */
export async function countEnded(
  { api, accepted, compute }: World,
  { starting, ending, agents }: Flight,
): Promise<number> {
  let ended = ending.length - ending.filter((id) => compute.in("stopping").has(id)).length;
  for (const id of [...starting, ...[...agents.build, ...agents.ready].map((agent) => agent.id)]) {
    const ids = { deployment_id: id, revision_id: accepted.get(id)?.at(-1) as string };
    const { status } = await retryUntilAnswered(() => api.getRevision(ids));
    if (!["AWAITING_BUILD", "BUILDING", "DEPLOYING"].includes(status)) ended += 1;
  }
  return ended;
}

export async function letGo({ compute, gates }: World, { turn }: Flight): Promise<void> {
  compute.letGo();
  for (const gate of ["build", "ready", "end"]) await gates.open(`${turn}-${gate}`);
}
