import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../../src/client/client.ts";
import { retryUntilAnswered, runConcurrently } from "../storm/retry-calls.ts";
import type { AgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import type { Gates } from "./held-agent.ts";
import type { HeldCompute } from "./held-compute.ts";
import type { Installation } from "./installation.ts";

/** Generous, because settling measures nothing. */
export const settleTimeoutMs = 600_000;

/** The requests so far, and the state that they imply. */
export interface World {
  api: Client;
  installation: Installation;
  compute: HeldCompute;
  gates: Gates;
  repository: AgentRepository;
  listenerId: string;
  /** Revisions of every accepted deployment as returned by the API, oldest first. */
  accepted: Map<string, string[]>;
  /** Deployments on simulated compute that exist from the start. */
  simulated: string[];
  /** Agents on process compute, built from git. */
  agents: Agent[];
  /** An agent that is sometimes updated and rolled back. */
  mover: Agent | null;
  /** Expected number of starts of each version of an agent. */
  starts: Map<string, number>;
}

export interface Agent {
  id: string;
  name: string;
  /** Identity of the process that answers now. */
  pid: number;
}

export async function createSimulated({ api, accepted, listenerId }: World, name: string): Promise<string> {
  const body = {
    ...{ name, source: "external_docker" as const, source_config: { listener_id: listenerId } },
    source_revision_config: { image_uri: "registry.invalid/agent:1" },
  };
  const made = await retryUntilAnswered((idempotencyKey) => api.createDeployment({ body }, { idempotencyKey }));
  accepted.set(made.id, [made.latest_revision_id as string]);
  return made.id;
}

export async function createAgent(world: World, name: string, held: { end?: string } = {}): Promise<Agent> {
  const { api, accepted, repository } = world;
  const version = `${name}.0`;
  const body = {
    ...{ name, source: "github" as const },
    source_config: { repo_url: repository.url, build_on_push: false, deployment_type: "dev" as const },
    source_revision_config: {
      repo_ref: await repository.commit(world.gates.agent(version, held)),
      langgraph_config_path: "pierhead.json",
    },
  };
  const made = await retryUntilAnswered((idempotencyKey) => api.createDeployment({ body }, { idempotencyKey }));
  accepted.set(made.id, [made.latest_revision_id as string]);
  world.starts.set(version, 1);
  return { id: made.id, name, pid: 0 };
}

/** Updates to another image or another commit. */
export async function update({ api, accepted }: World, id: string, to: { image_uri: string } | { repo_ref: string }) {
  const body = { source_revision_config: to };
  const { latest_revision_id: revision } = await retryUntilAnswered((idempotencyKey) =>
    api.patchDeployment({ deployment_id: id, body }, { idempotencyKey }),
  );
  accepted.get(id)?.push(revision as string);
}

/** Rolls back to the first revision. */
export async function rollBack({ api, accepted }: World, id: string): Promise<void> {
  const revisions = accepted.get(id) as string[];
  const ids = { deployment_id: id, revision_id: revisions[0] as string };
  const { latest_revision_id: revision } = await retryUntilAnswered((idempotencyKey) =>
    api.redeployRevision(ids, { idempotencyKey }),
  );
  revisions.push(revision as string);
}

export async function remove({ api, accepted }: World, ids: string[]): Promise<void> {
  await runConcurrently(
    ids.map(
      (id) => () =>
        retryUntilAnswered((idempotencyKey) => api.deleteDeployment({ deployment_id: id }, { idempotencyKey })),
    ),
  );
  for (const id of ids) {
    await retryUntilAnswered(() => api.waitForDeletion({ deployment_id: id }, { timeoutMs: settleTimeoutMs }));
    accepted.delete(id);
  }
}

export async function waitForStatus({ api, accepted }: World, ids: string[], status: string): Promise<void> {
  for (const id of ids) {
    await eventually(
      () =>
        retryUntilAnswered(() =>
          api.getRevision({ deployment_id: id, revision_id: accepted.get(id)?.at(-1) as string }),
        ),
      (revision) => revision.status === status,
      { timeoutMs: settleTimeoutMs, what: `${status} of ${id}` },
    );
  }
}

/** Returns its URL at the gateway. */
export async function pathOf({ api }: World, { id }: Agent): Promise<string> {
  const { url } = await retryUntilAnswered(() => api.getDeployment({ deployment_id: id }));
  return new URL(url ?? "").pathname;
}

/** Returns the identity of the process that answers for an agent through the gateway. */
export async function findPid(world: World, agent: Agent): Promise<number> {
  const { name } = agent;
  const address = `${world.installation.agentsUrl}${await pathOf(world, agent)}/version`;
  const answer = await eventually(
    () => fetch(address).then((response) => response.text(), String),
    (text) => text.includes(`"${name}.`),
    { what: `a response of ${name}`, timeoutMs: settleTimeoutMs },
  );
  return (JSON.parse(answer) as { pid: number }).pid;
}

/** Creates deployments one after the other on any server that answers. */
export function createAlways(world: World, prefix: string) {
  const stopping = new AbortController();
  let count = 0;
  const working = (async () => {
    while (!stopping.signal.aborted) {
      await createSimulated(world, `${prefix}-${count}`);
      count += 1;
      await sleep(50);
    }
  })();
  // A failure is rethrown when it is stopped.
  working.catch(() => {});
  return async (): Promise<number> => {
    stopping.abort();
    await working;
    return count;
  };
}

/** Calls agents one after the other. @returns a function that stops and reports how many calls were made and failed. */
export function askAlways({ installation }: World, paths: string[]) {
  const stopping = new AbortController();
  const counts = { asked: 0, failed: 0 };
  const working = (async () => {
    while (!stopping.signal.aborted) {
      for (const path of paths) {
        const isAnswered = await fetch(`${installation.agentsUrl}${path}/version`).then(
          ({ ok }) => ok,
          () => false,
        );
        counts.asked += 1;
        if (!isAnswered) counts.failed += 1;
      }
      await sleep(20);
    }
  })();
  return async () => {
    stopping.abort();
    await working;
    return counts;
  };
}
