import assert from "node:assert/strict";
import { test } from "node:test";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { startTestServer } from "../support/server.ts";

test("a rollback brings back the answers of an earlier revision: its code and its variables, or only its code", async () => {
  await using pierhead = await startTestServer();
  await using repository = await createAgentRepository(nodeAgent("good"));
  const { client } = pierhead;
  const settled = async (deployment: Deployment) => {
    const ids = { deployment_id: deployment.id, revision_id: deployment.latest_revision_id as string };
    assert.equal((await client.waitForRevision(ids)).status, "DEPLOYED");
    return ids;
  };
  const made = await client.createDeployment({
    body: {
      name: "agent",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      secrets: [{ name: "WORD", value: "right" }],
    },
  });
  const good = await settled(made);
  const { url } = await client.getDeployment(good);
  const answer = async () => {
    const [version, env] = await Promise.all(
      ["/version", "/env"].map(async (path) => (await fetch(`${url}${path}`)).json()),
    );
    return `${(version as { version: string }).version} ${(env as { WORD?: string }).WORD}`;
  };
  assert.equal(await answer(), "good right");

  // A bad variable, on the same code although the branch has moved on.
  await repository.commit(nodeAgent("bad"), "Break the agent");
  await settled(await client.changeVariables({ ...good, body: { set: [{ name: "WORD", value: "wrong" }] } }));
  assert.equal(await answer(), "good wrong");

  // Bad code too.
  await settled(await client.deployLatest(good));
  assert.equal(await answer(), "bad wrong");

  await settled(await client.rollbackRevision({ ...good, body: { code_only: true } }));
  assert.equal(await answer(), "good wrong");
  await settled(await client.rollbackRevision({ ...good, body: {} }));
  assert.equal(await answer(), "good right");

  await settled(await client.restartDeployment(good));
  assert.equal(await answer(), "good right");
  const { resources } = await client.listRevisions({ deployment_id: made.id });
  assert.deepEqual(resources.find(({ number }) => number === 3)?.commit, {
    message: "Break the agent",
    author: "test",
  });
  assert.equal(resources[0]?.commit?.message, "change", "a revision that runs code again keeps its commit");
  const reasons = resources.map(({ number, reason }) => `${number} ${reason}`);
  assert.deepEqual(reasons, ["6 restart", "5 rollback", "4 rollback", "3 latest", "2 variables", "1 deploy"]);

  // Bad code and a bad variable, undone at once.
  await settled(await client.changeVariables({ ...good, body: { set: [{ name: "WORD", value: "wrong" }] } }));
  await settled(await client.deployLatest(good));
  assert.equal(await answer(), "bad wrong");
  await settled(await client.rollbackRevision({ ...good, body: {} }));
  assert.equal(await answer(), "good right");
});
