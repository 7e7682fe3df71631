import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../../src/client/client.ts";
import type { AgentRepository } from "../support/agent-repository.ts";
import type { Loose } from "./checks.ts";
import { clientOf } from "./replicas.ts";

/** How long a step of the long run takes. A replica that ends lets runs go on for ten seconds, so none ends there. */
const stepMs = 500;

/** 20 requests per second. */
const intervalMs = 50;

/** Every tenth request starts a run and waits for it. The others read. */
const runEvery = 10;

interface Deployed {
  client: Client;
  deploymentId: string;
  repository: AgentRepository;
  timeoutMs: number;
}

/**
 * Updates a deployment and rolls it back beside a run that takes as long as `PIERHEAD_TEST_LONG_RUN_S` says, for example 600. Without
 * this variable it does nothing.
 * @param deployed an agent with the graph `steps`, on an engine whose replicas hand runs over
 */
export async function rollBesideLongRun(deployed: Deployed, context: TestContext): Promise<void> {
  const longS = Number(process.env["PIERHEAD_TEST_LONG_RUN_S"] ?? 0);
  if (longS === 0) return;
  const { client, deploymentId, repository, timeoutMs } = deployed;
  const ids = { deployment_id: deploymentId };
  const { url, active_revision_id: before } = await client.getDeployment(ids);
  const agent = await clientOf(String(url));
  const { thread_id: thread } = await agent.threads.create();
  const total = Math.ceil((longS * 1_000) / stepMs);
  const options = { input: { total, ms: stepMs }, config: { recursion_limit: total + 10 } };
  const { run_id: run } = await agent.runs.create(thread, "steps", options);
  const load = startLoad(agent, thread);
  context.after(() => load.stop());
  const settle = async (revisionId: string | null) => {
    const revision = await client.waitForRevision({ ...ids, revision_id: String(revisionId) }, { timeoutMs });
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  };
  await sleep((longS * 1_000) / 5);
  await repository.commit({ "CHANGE.md": "beside a long run" });
  const patched = await client.patchDeployment({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
  await settle(patched.latest_revision_id);
  await sleep((longS * 1_000) / 5);
  const back = await client.redeployRevision({ ...ids, revision_id: String(before) });
  await settle(back.latest_revision_id);
  await agent.runs.join(thread, run).catch(() => {});
  while (["pending", "running"].includes((await agent.runs.get(thread, run)).status)) await sleep(1_000);
  const { count, runs, longestMs, failures } = await load.stop();
  context.diagnostic(
    `${count} requests, ${runs} of them runs, ${failures.length} failed, the slowest ${Math.round(longestMs)} ms`,
  );
  assert.deepEqual(failures, []);
  assert.equal((await agent.runs.get(thread, run)).status, "success");
  const { done } = (await agent.threads.getState(thread)).values;
  assert.deepEqual(
    done,
    Array.from({ length: total }, (_, index) => index + 1),
  );
}

/** Sends requests at a fixed rate, whatever the answers take. */
function startLoad(agent: Loose, thread: string) {
  const failures: string[] = [];
  const open = new Set<Promise<void>>();
  let count = 0;
  let runs = 0;
  let longestMs = 0;
  const request = async () => {
    const beganMs = performance.now();
    count += 1;
    if (count % runEvery === 0) {
      runs += 1;
      const { done } = await agent.runs.wait(null, "steps", { input: { total: 3, ms: 20 } });
      assert.deepEqual(done, [1, 2, 3]);
    } else await agent.threads.getState(thread);
    longestMs = Math.max(longestMs, performance.now() - beganMs);
  };
  const timer = setInterval(() => {
    const one = request().catch((error: unknown) => void failures.push(String(error)));
    open.add(one);
    void one.finally(() => open.delete(one));
  }, intervalMs);
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(open);
      return { count, runs, longestMs, failures };
    },
  };
}
