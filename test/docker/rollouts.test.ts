import assert from "node:assert/strict";
import { Agent, get } from "node:http";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { startTestServer } from "../support/server.ts";
import { buildAgentImage } from "./base-image.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

/** `PIERHEAD_TEST_ROLLOUTS=100` is the long form: the number of rollouts, and of rollbacks. */
const rollouts = Number(process.env["PIERHEAD_TEST_ROLLOUTS"] ?? 2);
const requestsPerS = 200;
const streamsOpen = 5;

/** Streams last three seconds, so that some are open during every switch. The test ends when the last one has. */
const agent = (version: string) => `
import { createServer } from "node:http";
const server = createServer(({ url }, response) => {
  if (url !== "/stream") return response.end("${version}");
  response.writeHead(200, { "content-type": "text/event-stream" });
  let left = 30;
  const tick = setInterval(() => {
    response.write("data: " + left + "\\n\\n");
    if (left-- === 0) { clearInterval(tick); response.end("data: done\\n\\n"); }
  }, 100);
  response.on("close", () => clearInterval(tick));
}).listen(Number(process.env.PORT), process.env.HOST);
process.on("SIGTERM", () => { server.close(() => process.exit(0)); server.closeIdleConnections(); });
`;
const nameOf = (version: string) => `pierhead-test/rollout-${version}:1`;

describe("docker: rollouts under load", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
    for (const version of ["one", "two"]) await buildAgentImage(engine, nameOf(version), agent(version));
  });
  after(() => end?.());

  test(`${rollouts} rollouts and ${rollouts} rollbacks at ${requestsPerS} requests/s and ${streamsOpen} streams: none fails`, async () => {
    await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host });
    const { client } = pierhead;
    const settled = async (id: string, revisionId: string | null) => {
      const revision = await client.waitForRevision({ deployment_id: id, revision_id: revisionId as string });
      assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
      return revision.id;
    };
    const made = await client.createDeployment({
      body: {
        name: "agent",
        source: "external_docker",
        source_config: { resource_spec: { cpu: 0.5, memory_mb: 128, memory_limit_mb: 128 } },
        source_revision_config: { image_uri: nameOf("one") },
      },
    });
    const { id } = made;
    let before = await settled(id, made.latest_revision_id);
    const { url } = await client.getDeployment({ deployment_id: id });
    const load = startLoad(String(url));
    for (let round = 0; round < rollouts; round += 1) {
      const body = { source_revision_config: { image_uri: nameOf("two") } };
      await settled(id, (await client.patchDeployment({ deployment_id: id, body })).latest_revision_id);
      const back = await client.redeployRevision({ deployment_id: id, revision_id: before });
      before = await settled(id, back.latest_revision_id);
    }
    const { failures, answered, streamed } = await load.end();
    assert.deepEqual(failures, []);
    assert.ok((answered.get("one") ?? 0) > 0 && (answered.get("two") ?? 0) > 0, JSON.stringify([...answered]));
    assert.ok(streamed >= streamsOpen, String(streamed));
  });
});

/** Sends requests at a fixed rate, however long the answers take, and opens streams again as they end. */
function startLoad(url: string) {
  const keepAlive = new Agent({ keepAlive: true });
  const failures: string[] = [];
  const answered = new Map<string, number>();
  const pending = new Set<Promise<void>>();
  let streamed = 0;
  let isOver = false;
  const ask = (target: string, isWhole: (text: string) => boolean) => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const fail = (error: Error) => {
      failures.push(`${target}: ${error.message}`);
      resolve("");
    };
    get(`${url}${target}`, { agent: keepAlive }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      answer.on("error", fail);
      answer.on("end", () => {
        if (answer.statusCode !== 200 || !isWhole(text)) fail(new Error(`${answer.statusCode} ${text.slice(-200)}`));
        else resolve(text);
      });
    }).on("error", fail);
    const done = promise.then(() => void pending.delete(done));
    pending.add(done);
    return promise;
  };
  const count = (version: string) => answered.set(version, (answered.get(version) ?? 0) + 1);
  const pace = setInterval(() => void ask("/", (text) => /^(one|two)$/.test(text)).then(count), 1_000 / requestsPerS);
  const stream = async () => {
    while (!isOver) {
      await ask("/stream", (text) => text.endsWith("data: done\n\n"));
      streamed += 1;
    }
  };
  const streams = Array.from({ length: streamsOpen }, stream);
  return {
    async end() {
      isOver = true;
      clearInterval(pace);
      await Promise.all([...streams, ...pending]);
      keepAlive.destroy();
      return { failures, answered, streamed };
    },
  };
}
