import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "./eventually.ts";
import type { TestServer } from "./server.ts";

/** Settings of a server that lets a run of this length end beside a redeploy. A handover waits for runs at most half of its time. */
export const settingsFor = (longRunMs: number) => ({
  PIERHEAD_DRAIN_TIMEOUT_MS: String(longRunMs + 60_000),
  PIERHEAD_DEPLOY_TIMEOUT_MS: String(Math.max(900_000, 2 * (longRunMs + 60_000))),
});

/**
 * Deploys a repository with a graph `long`, and waits for its first revision, which may have failed.
 * `beside` replaces the server beside a run and 20 requests per second, of which none may fail; the run must end with its result. It
 * returns why the new revision serves, and the longest time that a request waited.
 */
export async function deployLongRuns(pierhead: TestServer, of: { name: string; repoUrl: string; timeoutMs: number }) {
  const { name, repoUrl, timeoutMs } = of;
  const made = await pierhead.client.createDeployment({
    body: {
      name,
      source: "github",
      source_config: { repo_url: repoUrl, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    },
  });
  const ids = { deployment_id: made.id };
  // A restart of the server gives another client.
  const settle = (id: string | null) =>
    pierhead.client.waitForRevision({ ...ids, revision_id: id ?? "" }, { timeoutMs });
  const first = await settle(made.latest_revision_id);
  const redeploy = async () => {
    const { client } = pierhead;
    const { latest_revision_id: id } = await client.redeployRevision({ ...ids, revision_id: first.id });
    const revision = await settle(id);
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    const { events } = await client.listDeploymentEvents({ ...ids, types: ["revision.status"], order: "desc" });
    const { data } = events.find((event) => event.revision_id === id && event.data["to"] === "DEPLOYED") ?? {};
    return String(data?.["because"]);
  };
  const beside = async (durationMs: number, part: TestContext) => {
    const url = (await pierhead.client.getDeployment(ids)).url ?? "";
    const { thread, ended } = await startRun(url, durationMs);
    const load = startRequests(url, part);
    const because = await redeploy();
    const { failures, longestMs, count, slow } = await load.stop();
    const waits = `the slowest ${Math.round(longestMs)} ms, ${slow} above 1 s`;
    part.diagnostic(`${durationMs / 1_000} s run: ${count} requests, ${failures.length} failed, ${waits}; ${because}`);
    assert.deepEqual(failures, []);
    assert.deepEqual(await ended(), [String(durationMs), "first", "second", "third"], thread);
    return { because, longestMs };
  };
  return { first, beside };
}

/**
 * Starts a run of the graph `long` and waits until its first step is stored. Its second step takes as long as the message says.
 * `ended` waits until the thread is no longer busy, and returns its messages.
 */
async function startRun(url: string, durationMs: number) {
  const call = async (pathname: string, body?: unknown) => {
    const response = await fetch(url + pathname, {
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      headers: { "content-type": "application/json" },
    });
    assert.equal(response.status, 200, `${pathname}: ${response.status}`);
    // biome-ignore lint/suspicious/noExplicitAny: the agent's own API, of which the test reads a few fields.
    return (await response.json()) as any;
  };
  const { thread_id: thread } = await call("/threads", {});
  const input = { messages: [{ role: "user", content: String(durationMs) }] };
  await call(`/threads/${thread}/runs`, { assistant_id: "long", input });
  const messages = async () =>
    ((await call(`/threads/${thread}/state`)).values.messages ?? []).map(
      (message: { content: string }) => message.content,
    );
  await eventually(messages, ({ length }) => length >= 2, { what: "the first step of the run" });
  const ended = async () => {
    const end = Date.now() + 120_000 + durationMs;
    while ((await call(`/threads/${thread}`)).status === "busy" && Date.now() < end) await sleep(200);
    return messages();
  };
  return { thread, ended };
}

/** Sends a request every 50 ms, until `stop` or the end of the test. */
function startRequests(url: string, part: TestContext) {
  const failures: string[] = [];
  const requests: Promise<void>[] = [];
  let [longestMs, slow] = [0, 0];
  const timer = setInterval(() => {
    const beganMs = performance.now();
    const request = fetch(`${url}/info`).then(async (response) => {
      await response.text();
      const tookMs = performance.now() - beganMs;
      longestMs = Math.max(longestMs, tookMs);
      if (tookMs > 1_000) slow += 1;
      if (response.status !== 200) failures.push(`GET /info: ${response.status}`);
    });
    requests.push(request.catch((error: unknown) => void failures.push(String(error))));
  }, 50);
  part.after(() => clearInterval(timer));
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(requests);
      return { failures, longestMs, count: requests.length, slow };
    },
  };
}
