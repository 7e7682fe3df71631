import assert from "node:assert/strict";
import { once } from "node:events";
import { globSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import path from "node:path";
import { after, before, test } from "node:test";
import { elsewhere, grant } from "../kubeplane/harness.ts";
import { openKeySite } from "../kubeplane/key-site.ts";
import { type Plane, startPlane } from "../kubeplane/plane.ts";
import { keys } from "../storm/fleet.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { pushBuildkit, pushNode, pushPusher } from "./buildkit.ts";
import { addDisk } from "./disk.ts";
import { pushPostgres, pushRedis } from "./images.ts";
import { address, type RealNode, startRealNode } from "./real-node.ts";

let plane: Plane;
let node: RealNode;
let images: Record<"buildkit" | "node" | "pusher" | "postgres" | "redis", string>;

before(async () => {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:cluster`");
  plane = await startPlane(program);
  node = await startRealNode(plane, program);
  images = {
    buildkit: await pushBuildkit(node.images),
    node: await pushNode(node.images),
    pusher: await pushPusher(node.images),
    postgres: await pushPostgres(node.images),
    redis: await pushRedis(node.images),
  };
});
after(async () => {
  await node?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

/** Small enough for a node of two cores. */
const sizes = { cpu: 0.1, cpu_limit: 1, memory_mb: 256, memory_limit_mb: 512 };
const databases = {
  ...{ redis_cpu: 0.1, redis_cpu_limit: 0.5, redis_memory_mb: 128 },
  ...{ db_cpu: 0.1, db_cpu_limit: 0.5, db_memory_mb: 256, db_storage_gi: 1 },
};

const agent = (version: string) => ({
  "pierhead.json": JSON.stringify({ start: ["node", "server.js"], build: [["node", "build.js"]], health: "/ok" }),
  "build.js": `require("node:fs").writeFileSync("version", ${JSON.stringify(version)}); console.log("built ${version}");`,
  "server.js": `
const version = require("node:fs").readFileSync("version", "utf8");
const stores = ["POSTGRES_URI", "REDIS_URI"].filter((name) => process.env[name] !== undefined).join(" ");
require("node:http").createServer((_, response) => response.end(version + " with " + stores)).listen(8000);
process.on("SIGTERM", () => process.exit(0));
`,
});

const secretsOf = (values: Record<string, string>) => Object.entries(values).map(([name, value]) => ({ name, value }));

/** Settings of a listener that builds in this namespace. */
const buildsIn = (namespace: string) => ({
  PIERHEAD_KUBERNETES_BUILD_REGISTRY: `${node.images.registry}/agents`,
  PIERHEAD_KUBERNETES_BUILD_REGISTRY_INSECURE: "1",
  PIERHEAD_KUBERNETES_BUILD_NAMESPACE: namespace,
  PIERHEAD_KUBERNETES_BUILD_IMAGE: images.buildkit,
  PIERHEAD_KUBERNETES_BUILD_PUSH_IMAGE: images.pusher,
  PIERHEAD_KUBERNETES_POSTGRES_IMAGE: images.postgres,
  PIERHEAD_KUBERNETES_REDIS_IMAGE: images.redis,
});

test("builds a git repository in the cluster, rolls a second commit, builds nothing twice and leaves nothing", async (context) => {
  const [namespace, buildNamespace] = [await plane.newNamespace(), await plane.newNamespace()];
  await grant(plane, namespace);
  await grant(plane, buildNamespace, "build-rules.json");
  await using repository = await createAgentRepository(agent("one"));
  await addDisk(plane, node, "of-from-git");
  const postgres = await startPostgresServer();
  assert.ok(postgres);
  await using stop = new AsyncDisposableStack();
  stop.defer(() => postgres.stop());
  const server = {
    ...{ HOST: address, PIERHEAD_ALLOW_LOCAL_SOURCES: "1", PIERHEAD_NODE_IMAGE: images.node },
    ...{ DATABASE_URL: postgres.url, PIERHEAD_COMPUTE: "none", PIERHEAD_ADMIN_KEY: keys.admin },
    PIERHEAD_MASTER_KEY: keys.master,
  };
  await using front = await startFront(address);
  const listener = { ...buildsIn(buildNamespace), PIERHEAD_URL: front.url };
  await using site = await openKeySite([namespace], { server, listener });
  await using other = await startTestServer(server);
  front.servers.push(site.server, other);
  const { client } = site.server;
  await site.start(plane);
  await isConnected(site);
  const list = async (kind: string, where: string) =>
    (await plane.admin.list<{ metadata: { name: string } }>(kind, where, {}, AbortSignal.timeout(10_000))).items;
  const {
    id,
    latest_revision_id: first,
    url,
  } = await client.createDeployment({
    body: {
      name: "from-git",
      source: "github",
      source_config: {
        ...{ listener_id: site.listener_id, repo_url: repository.url, build_on_push: false },
        resource_spec: { ...sizes, ...databases },
      },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      secrets: [],
    },
  });
  const logOf = async (revision_id: string) => {
    const { logs } = await client.readBuildLogs({ deployment_id: id, revision_id, body: { limit: 500 } });
    return logs.map(({ message }: { message: string }) => message).join("\n");
  };
  const deployed = async (revision_id: string | null | undefined) => {
    const revision = await client.waitForRevision({ deployment_id: id, revision_id: revision_id as string });
    assert.equal(revision.status, "DEPLOYED", `${revision.status_message}\n${await logOf(revision.id)}`);
    return revision;
  };
  await deployed(first);
  const slug = new URL(url as string).hostname.split(".")[0] as string;
  const service = await plane.admin.get<{ spec: { clusterIP: string } }>(
    "Service",
    namespace,
    slug,
    AbortSignal.timeout(10_000),
  );
  const read = async () => (await fetch(`http://${service?.spec.clusterIP}:8000/`)).text();
  assert.equal(await read(), "one with POSTGRES_URI REDIS_URI");
  assert.match(await logOf(first as string), /> RUN .*\n(.*\n)*built one\n(.*\n)*Step 4\/4 done in .*@sha256:/);

  await repository.commit(agent("two"));
  const body = { source_revision_config: { repo_ref: "main" } };
  const second = await client.patchDeployment({ deployment_id: id, body });
  await deployed(second.latest_revision_id);
  const lines = await logOf(second.latest_revision_id as string);
  context.diagnostic(
    `${/Step 4.4 done in .* s/.exec(await logOf(first as string))}, then ${/Step 4.4 done in .* s/.exec(lines)}`,
  );
  assert.match(lines, /The cache of an earlier build has \d+ layers/);
  assert.match(lines, /> RUN .*\n *unchanged since an earlier build/);
  assert.ok(front.redirected > 0, "the context came from the other server");
  assert.equal(await read(), "two with POSTGRES_URI REDIS_URI");

  const again = await client.patchDeployment({ deployment_id: id, body });
  await deployed(again.latest_revision_id);
  assert.match(await logOf(again.latest_revision_id as string), /This source was built before/);

  await repository.commit({ "build.js": "console.error('no such model'); process.exit(7)" });
  const broken = await client.patchDeployment({ deployment_id: id, body });
  const failed = await client.waitForRevision({ deployment_id: id, revision_id: broken.latest_revision_id as string });
  assert.equal(failed.status, "BUILD_FAILED");
  assert.match(failed.status_message ?? "", /exit code: 7[\s\S]*no such model/);
  assert.equal(await read(), "two with POSTGRES_URI REDIS_URI");

  await client.deleteDeployment({ deployment_id: id });
  const leftovers = async () => [
    ...(await list("Job", buildNamespace)),
    ...(await list("Pod", buildNamespace)),
    ...(await list("Secret", buildNamespace)),
    ...(await list("Pod", namespace)),
    ...(await list("Deployment", namespace)),
    ...(await node.images.tags("agents")),
  ];
  assert.ok((await node.images.tags("agents")).includes(`cache-${id}`));
  await eventually(leftovers, (left) => left.length === 0, { timeoutMs: 120_000, what: "nothing left" });
});

test("a build whose pod cannot pull its image ends with the cause", async () => {
  const [namespace, buildNamespace] = [await plane.newNamespace(), await plane.newNamespace()];
  await grant(plane, namespace);
  await grant(plane, buildNamespace, "build-rules.json");
  await using repository = await createAgentRepository(agent("one"));
  const missing = `${images.buildkit}-missing`;
  await using site = await openKeySite([namespace], {
    server: { HOST: address, PIERHEAD_ALLOW_LOCAL_SOURCES: "1", PIERHEAD_NODE_IMAGE: images.node },
    listener: { ...buildsIn(buildNamespace), PIERHEAD_KUBERNETES_BUILD_IMAGE: missing },
  });
  const { client } = site.server;
  await site.start(plane);
  await isConnected(site);
  const { id, latest_revision_id } = await client.createDeployment({
    body: {
      ...{ name: "unpulled", source: "github", secrets: secretsOf(elsewhere) },
      source_config: { listener_id: site.listener_id, repo_url: repository.url, build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const failed = await client.waitForRevision({ deployment_id: id, revision_id: latest_revision_id as string });
  assert.equal(failed.status, "BUILD_FAILED");
  assert.match(
    failed.status_message ?? "",
    /build container cannot start \(ImagePullBackOff\): .*-missing.*ErrImagePull: failed to/s,
  );
});

/** The API accepts sources once the listener has said that it builds. */
const isConnected = ({ server, listener_id }: Awaited<ReturnType<typeof openKeySite>>) =>
  eventually(
    () => server.client.getListener({ listener_id }),
    ({ status }) => status === "CONNECTED",
    { timeoutMs: 30_000, what: "the listener's session" },
  );

/** One address in front of several servers, which sends the first request for each context to a server that does not have it. */
async function startFront(host: string) {
  const servers: TestServer[] = [];
  const front = { servers, redirected: 0, url: "" };
  const has = ({ dataDir }: TestServer) => globSync(path.join(dataDir, "builds", "*.tar")).length > 0;
  const serverFor = (request: string) => {
    if (!request.startsWith("GET /build-contexts/")) return servers[0];
    if (request.includes("tried=")) front.redirected += 1;
    return servers.find((one) => has(one) === request.includes("tried="));
  };
  const listening = createServer((near) => {
    near.on("error", () => {});
    near.once("data", (start) => {
      const { hostname, port } = new URL(serverFor(start.toString("latin1"))?.url ?? "");
      const far = connect({ host: hostname, port: Number(port) });
      far.on("error", () => near.destroy());
      far.write(start);
      near.pipe(far).pipe(near);
    });
  });
  await once(listening.listen(0, host), "listening");
  front.url = `http://${host}:${(listening.address() as AddressInfo).port}`;
  return Object.assign(front, {
    async [Symbol.asyncDispose]() {
      listening.close();
    },
  });
}
