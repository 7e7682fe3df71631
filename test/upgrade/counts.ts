import type { Revision } from "../../src/contract/revisions/revision.ts";
import { retryUntilAnswered, runConcurrently } from "../storm/retry-calls.ts";
import { eventually } from "../support/eventually.ts";
import { findPid, settleTimeoutMs, type World } from "./world.ts";

/** Public facts of a deployment's revisions, by id. */
export type Seen = Map<string, Pick<Revision, "status" | "artifact_digest">>;

export async function lookAtAll({ api, accepted }: World): Promise<Seen> {
  const seen: Seen = new Map();
  await runConcurrently(
    [...accepted.keys()].map((id) => async () => {
      const { resources } = await retryUntilAnswered(() => api.listRevisions({ deployment_id: id, limit: 100 }));
      for (const { id, status, artifact_digest } of resources) seen.set(id, { status, artifact_digest });
    }),
  );
  return seen;
}

export async function waitUntilSettled(world: World): Promise<void> {
  const unsettled = async () => {
    let count = 0;
    for await (const deployment of world.api.all("listDeployments")) {
      if (deployment.active_revision_id !== deployment.latest_revision_id) count += 1;
    }
    return count;
  };
  await eventually(
    () => retryUntilAnswered(unsettled),
    (count) => count === 0,
    { what: "no revision in progress", timeoutMs: settleTimeoutMs },
  );
}

/** Returns the counts that must be 0 once all have settled. @param before facts read before the program was replaced. */
export async function countWrong(world: World, before: Seen): Promise<Record<string, number>> {
  const after = await lookAtAll(world);
  const wanted = [...world.accepted.values()].flat();
  const isDeployed = (id: string) => after.get(id)?.status === "DEPLOYED";
  const counts: Record<string, number> = {
    "revisions that are lost": wanted.filter((id) => !after.has(id)).length,
    "revisions that no request made": after.size - wanted.filter((id) => after.has(id)).length,
    "revisions that never served": wanted.filter((id) => after.has(id) && !isDeployed(id)).length,
    "artifacts that were rebuilt": [...before].filter(
      ([id, { status, artifact_digest: digest }]) =>
        // An earlier program may not show it.
        status === "DEPLOYED" && digest !== undefined && after.has(id) && after.get(id)?.artifact_digest !== digest,
    ).length,
    "status moves made twice": await countTwice(world),
    "work that the driver received twice": world.compute.wrong.length,
  };
  return { ...counts, ...(await countDeployments(world)), ...(await countStarts(world)) };
}

async function countDeployments({ api, accepted }: World): Promise<Record<string, number>> {
  const known = new Set<string>();
  for await (const { id } of api.all("listDeployments")) known.add(id);
  return {
    "deployments that are lost": [...accepted.keys()].filter((id) => !known.has(id)).length,
    "deployments that no create returned": [...known].filter((id) => !accepted.has(id)).length,
  };
}

async function countTwice({ api }: World): Promise<number> {
  const seen = new Set<string>();
  let twice = 0;
  for (let after = "0"; ; ) {
    const { events, position } = await retryUntilAnswered(() =>
      api.listEvents({ types: ["revision.status"], after, order: "asc", limit: 1_000 }),
    );
    for (const { revision_id, data } of events) {
      const move = `${revision_id} ${data["from"]} ${data["to"]}`;
      if (seen.has(move)) twice += 1;
      seen.add(move);
    }
    if (events.length < 1_000) return twice;
    after = position;
  }
}

/** Counts starts of agents: each of their processes leaves a mark. */
async function countStarts({ gates, starts }: World): Promise<Record<string, number>> {
  let wrong = 0;
  for (const [version, count] of starts) if ((await gates.count(`started-${version}-`)) !== count) wrong += 1;
  return { "agents started more or less often than requested": wrong };
}

/** Counts untouched agents that run in another process than before. */
export async function countReplaced(world: World, touched: Set<string>): Promise<number> {
  let replaced = 0;
  for (const agent of world.agents) {
    const pid = await findPid(world, agent);
    if (pid !== agent.pid && !touched.has(agent.id)) replaced += 1;
    agent.pid = pid;
  }
  return replaced;
}
