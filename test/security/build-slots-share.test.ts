import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { Client } from "../../src/client/client.ts";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startWithTwoWorkspaces } from "./two-workspaces.ts";

const timeoutMs = 120_000;

const hanging = JSON.stringify({
  build: ["node", "-e", "setTimeout(() => {}, 3600000)"],
  start: ["node", "server.js"],
});

function deploy(api: Client, { url }: AgentRepository, commit: string) {
  return api.createDeployment({
    body: {
      ...{ name: `agent-${randomUUID()}`, source: "github" },
      source_config: { repo_url: url, build_on_push: false, deployment_type: "dev" },
      source_revision_config: { repo_ref: commit, langgraph_config_path: "pierhead.json" },
    },
  });
}

test("builds of one workspace that never end must not keep other workspaces from building", async () => {
  await using repository = await createAgentRepository();
  await using world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "process" });
  const { attacker, victim } = world;
  const stuck: string[] = [];
  for (let count = 0; count < 6; count += 1) {
    // Each has its own content, because equal content is built once.
    const commit = await repository.commit({ ...nodeAgent(`${count}`), "pierhead.json": hanging });
    stuck.push((await deploy(attacker.api, repository, commit)).id);
  }
  const reasonOf = async (id: string) =>
    (await attacker.api.debugDeployment({ deployment_id: id })).outcomes[0]?.because ?? "";
  const waiting = /^waiting for a build slot of your workspace: 1 build of your workspace is running$/;
  await eventually(
    async () => (await Promise.all(stuck.map(reasonOf))).filter((because) => waiting.test(because)).length,
    (count) => count === stuck.length - 1,
    { timeoutMs, what: "the builds that wait" },
  );
  const commit = await repository.commit(nodeAgent("victim"));
  const { id, latest_revision_id: revisionId } = await deploy(victim.api, repository, commit);
  const revision = await victim.api.waitForRevision(
    { deployment_id: id, revision_id: revisionId as string },
    { timeoutMs },
  );
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
});
