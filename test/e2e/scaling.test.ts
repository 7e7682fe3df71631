import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";

/** Enough for two polls of the listener, and for the starts or stops that follow, on a busy machine. */
const timeoutMs = 120_000;

test("scales plain processes to three replicas under 25 requests, and back to one after them", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_SCALE_DOWN_AFTER_MS: "1000" });
  await using repository = await createAgentRepository(nodeAgent("one"));
  const { client } = pierhead;
  const { id, latest_revision_id: revisionId } = await client.createDeployment({
    body: {
      name: "agent",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "prod", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const revision = await client.waitForRevision({ deployment_id: id, revision_id: revisionId as string });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const { url } = await client.getDeployment({ deployment_id: id });
  const ready = async () => {
    const report = (await client.debugDeployment({ deployment_id: id })).observed as DeploymentReport | null;
    return report?.replicas.filter(({ phase }) => phase === "ready").length;
  };
  assert.equal(await ready(), 1);
  const leave = new AbortController();
  const asking = Array.from({ length: 25 }, () =>
    fetch(`${url}/?ms=${timeoutMs}`, { signal: leave.signal }).then(
      () => assert.fail("the agent answered too early"),
      () => {},
    ),
  );
  await eventually(ready, (count) => count === 3, { timeoutMs });
  const answers = await Promise.all(
    Array.from({ length: 12 }, async () => ((await (await fetch(`${url}/`)).json()) as { pid: number }).pid),
  );
  assert.ok(new Set(answers).size > 1, answers.join());
  leave.abort();
  await Promise.all(asking);
  await eventually(ready, (count) => count === 1, { timeoutMs });
});
