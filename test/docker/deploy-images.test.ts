import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { buildAgentImage } from "./base-image.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const agent = (version: string) => `
import { createServer } from "node:http";
createServer(({ url }, response) => {
  if (url === "/grow") { const held = []; setInterval(() => held.push(Buffer.alloc(16 << 20, 1)), 5); }
  if (url === "/exit") process.exit(3);
  if (url === "/wait") return;
  response.end(url === "/ok" ? "ok" : "${version}");
}).listen(Number(process.env.PORT), process.env.HOST);
process.on("SIGTERM", () => process.exit(0));
`;
const images = {
  one: agent("one"),
  two: agent("two"),
  crashing: 'console.log("starting"); console.error("no model key"); process.exitCode = 1;',
  unhealthy: `
    import { createServer } from "node:http";
    createServer((_, response) => response.writeHead(500).end()).listen(Number(process.env.PORT), process.env.HOST);
  `,
};
const nameOf = (kind: string) => `pierhead-test/deploy-${kind}:1`;

describe("docker: images are deployed", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
    for (const [kind, program] of Object.entries(images)) await buildAgentImage(engine, nameOf(kind), program);
  });
  after(() => end?.());

  const startServer = (environment = {}) =>
    startTestServer({ PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host, ...environment });
  const deploy = async ({ client }: TestServer, image: string, spec = {}) => {
    const made = await client.createDeployment({
      body: {
        name: "agent",
        source: "external_docker",
        source_config: { resource_spec: { cpu: 0.5, memory_mb: 128, memory_limit_mb: 128, ...spec } },
        source_revision_config: { image_uri: image },
      },
    });
    const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
    return { id: made.id, revision: await client.waitForRevision(ids) };
  };
  const update = async ({ client }: TestServer, id: string, image: string) => {
    const body = { source_revision_config: { image_uri: image } };
    const { latest_revision_id: revisionId } = await client.patchDeployment({ deployment_id: id, body });
    return client.waitForRevision({ deployment_id: id, revision_id: revisionId as string });
  };
  const ask = async ({ client }: TestServer, id: string, path = "/") => {
    const { url } = await client.getDeployment({ deployment_id: id });
    return fetch(`${url}${path}`).then((answer) => answer.text());
  };

  const observe = async ({ client }: TestServer, id: string) =>
    (await client.debugDeployment({ deployment_id: id })).observed as DeploymentReport | null;
  const containersOf = (id: string) => {
    const query = { all: true, filters: { label: [`pierhead.dev/deployment=${id}`] } };
    return engine.call<{ Id: string; Ports: { PublicPort: number }[] }[]>("GET", "/containers/json", { query });
  };

  test("an image serves behind the gateway, scales to several replicas under load, and is replaced by the next revision", async () => {
    await using pierhead = await startServer();
    const { id, revision } = await deploy(pierhead, nameOf("one"), { min_scale: 2, max_scale: 3 });
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    assert.equal(await ask(pierhead, id), "one");
    const observed = () => observe(pierhead, id);
    await eventually(observed, (report) => report?.replicas.filter(({ phase }) => phase === "ready").length === 2);
    const { url } = await pierhead.client.getDeployment({ deployment_id: id });
    const leave = new AbortController();
    const asking = Array.from({ length: 25 }, () => fetch(`${url}/wait`, { signal: leave.signal }).catch(() => {}));
    await eventually(observed, (report) => report?.replicas.filter(({ phase }) => phase === "ready").length === 3);
    leave.abort();
    await Promise.all(asking);
    assert.equal((await update(pierhead, id, nameOf("two"))).status, "DEPLOYED");
    assert.equal(await ask(pierhead, id), "two");
    await eventually(observed, (report) => report?.replicas.length === 3, { what: "the old replicas are removed" });
    await pierhead.client.deleteDeployment({ deployment_id: id });
    await eventually(
      () => containersOf(id),
      (left) => left.length === 0,
      { what: "its containers are removed" },
    );
  });

  test("an image with a smallest number of replicas of 0 sleeps without requests, and wakes with the next one", async () => {
    await using pierhead = await startServer({ PIERHEAD_IDLE_AFTER_MS: "1000" });
    const { id, revision } = await deploy(pierhead, nameOf("one"), { min_scale: 0 });
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    assert.equal(await ask(pierhead, id), "one");
    await eventually(
      () => observe(pierhead, id),
      (report) => report?.asleep === true && report.replicas.length === 0,
      { what: "the deployment sleeps" },
    );
    assert.equal(await ask(pierhead, id), "one");
  });

  test("a crashing, a missing and an unhealthy image fail with their reason, and the old revision keeps serving", async () => {
    await using pierhead = await startServer();
    const { id, revision } = await deploy(pierhead, nameOf("one"));
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    const failures: [string, RegExp][] = [
      [nameOf("crashing"), /exit code 1.*no model key/s],
      ["127.0.0.1:1/nobody/agent:1", /127\.0\.0\.1:1/],
      [nameOf("unhealthy"), /did not answer 200 on \/ok within 15 s.*500/s],
    ];
    for (const [image, message] of failures) {
      // These two need the whole time limit of a deploy.
      if (image.startsWith("127.")) await pierhead.restart({ PIERHEAD_DEPLOY_TIMEOUT_MS: "15000" });
      const failed = await update(pierhead, id, image);
      assert.equal(failed.status, "DEPLOY_FAILED", image);
      assert.match(failed.status_message ?? "", message);
      assert.equal(await ask(pierhead, id), "one");
    }
  });

  test("a server that runs out of memory is reported with its limit and started again", async () => {
    await using pierhead = await startServer();
    const { id } = await deploy(pierhead, nameOf("one"));
    await ask(pierhead, id, "/grow");
    const observed = () => observe(pierhead, id);
    const { cause } = (await eventually(observed, (report) => report?.cause != null)) ?? {};
    assert.equal(cause?.reason, "OutOfMemory");
    assert.match(cause?.message ?? "", /128 MiB/);
    await eventually(
      () => ask(pierhead, id),
      (answer) => answer === "one",
    );
  });

  test("containers keep answering while Pierhead restarts, and are adopted", async () => {
    await using pierhead = await startServer();
    const { id } = await deploy(pierhead, nameOf("one"));
    const containers = () => containersOf(id);
    const before = await containers();
    await pierhead.server.close();
    assert.equal((await fetch(`http://127.0.0.1:${before[0]?.Ports[0]?.PublicPort}/`)).status, 200);
    await pierhead.restart();
    assert.equal(await ask(pierhead, id), "one");
    assert.deepEqual(
      (await containers()).map(({ Id }) => Id),
      before.map(({ Id }) => Id),
    );
  });
});
