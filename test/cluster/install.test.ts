import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { createClient } from "../../src/client/client.ts";
import { kinds } from "../../src/compute/kubernetes/api/kinds.ts";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import type { DeploymentView, PodView } from "../../src/compute/kubernetes/watch/rollout.ts";
import { gitHttpServer } from "../integrations/git-http-server.ts";
import { elsewhere } from "../kubeplane/harness.ts";
import { make, type Plane, startPlane } from "../kubeplane/plane.ts";
import { keys } from "../storm/fleet.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import { agentProgram } from "./agent.ts";
import { pushBuildkit } from "./buildkit.ts";
import { addDisk } from "./disk.ts";
import { pushAgent, pushPierhead, pushPostgres, pushRedis } from "./images.ts";
import { pushNodeWithPackages } from "./npm-image.ts";
import { followPodStart } from "./pod-start.ts";
import { address, type RealNode, startRealNode } from "./real-node.ts";

const run = promisify(execFile);
const example = "examples/hello-agent";

let plane: Plane;
let node: RealNode;
let images: Record<"pierhead" | "buildkit" | "node" | "postgres" | "redis" | "agent", string>;

before(async () => {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:cluster`");
  plane = await startPlane(program);
  node = await startRealNode(plane, program);
  const server = "src/builds/toolchains/langgraph-js-postgres-1.5.1";
  images = {
    pierhead: await pushPierhead(node.images),
    buildkit: await pushBuildkit(node.images),
    node: await pushNodeWithPackages(node.images, [
      [`${server}.package.json`, `${server}.package-lock.json`],
      [`${example}/package.json`, `${example}/package-lock.json`],
    ]),
    postgres: await pushPostgres(node.images),
    redis: await pushRedis(node.images),
    agent: await pushAgent(node.images, "agent:1", agentProgram("one")),
  };
  await node.images.tag(images.pierhead, "next");
});
after(async () => {
  await node?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

const [home, agents, builds] = ["pierhead", "agents", "pierhead-builds"];
const inTime = () => AbortSignal.timeout(10_000);

function helm(...args: string[]) {
  const kubeconfig = ["--kubeconfig", path.join(plane.directory, "kubeconfig")];
  return run(process.env["PIERHEAD_TEST_HELM"] ?? "helm", [...args, "-n", home, ...kubeconfig]);
}

/** Values that look like numbers stay texts. */
const settings = (values: string[]) =>
  values.flatMap((one) => [/^(extraEnv|image\.tag)/.test(one) ? "--set-string" : "--set", one]);

const environment = (variables: Record<string, string>) =>
  Object.entries(variables).flatMap(([name, value], index) => [
    `extraEnv[${index}].name=${name}`,
    `extraEnv[${index}].value=${value}`,
  ]);

/** Returns the directory of the charts of the commit before, or of this one in a clone that has only one. */
async function chartsBefore(): Promise<string> {
  const archive = path.join(plane.directory, "charts.tar");
  const { stdout } = await run("git", ["rev-list", "--first-parent", "--max-count=2", "HEAD"]);
  const ref = stdout.trim().split("\n").at(-1) as string;
  await run("git", ["archive", "--format=tar", `--output=${archive}`, ref, "--", "deploy/helm"]);
  await run("tar", ["-C", plane.directory, "-xf", archive]);
  return path.join(plane.directory, "deploy/helm");
}

const list = async <T = LiveObject>(kind: string, namespace: string) =>
  (await plane.admin.list<T>(kind, namespace, {}, inTime())).items;

async function volumes(): Promise<string[]> {
  const call = { method: "GET", path: "/api/v1/persistentvolumes", signal: inTime() } as const;
  const { items } = await plane.admin.call<{ items: LiveObject[] }>(call);
  return items.map(({ metadata }) => `PersistentVolume ${metadata.name}`);
}

/** Returns the objects of a namespace of kinds that every cluster has. */
async function objectsIn(namespace: string): Promise<string[]> {
  const optional = ["VolumeSnapshot", "PodMetrics", "Event"];
  const names = Object.entries(kinds).flatMap(([kind, one]) =>
    "needs" in one || optional.includes(kind) ? [] : [kind],
  );
  const lists = names.map(async (kind) =>
    (await list(kind, namespace)).map(({ metadata }) => `${kind} ${metadata.name}`),
  );
  return (await Promise.all(lists)).flat();
}

/** Waits until a rollout is complete. A failure shows the last lines of the pods. */
async function isRolledOut(name: string): Promise<void> {
  const isDone = (found: DeploymentView | null) => {
    const { observedGeneration = 0, updatedReplicas = 0, availableReplicas = 0, replicas = 0 } = found?.status ?? {};
    const desired = found?.spec.replicas ?? 1;
    const isCurrent = observedGeneration >= (found?.metadata.generation ?? 1);
    return isCurrent && [updatedReplicas, availableReplicas, replicas].every((count) => count === desired);
  };
  const read = () => plane.admin.get<DeploymentView>("Deployment", home, name, inTime());
  await eventually(read, isDone, { timeoutMs: 150_000, what: `the rollout of ${name}` }).catch(async (error: Error) => {
    const lines = (await list<PodView>("Pod", home)).map(async ({ metadata }) => {
      const key = { namespace: home, name: metadata.name };
      const text = await plane.admin.readLog(key, { tailLines: 10 }, inTime()).catch((failure) => failure.message);
      return `${metadata.name}: ${text}`;
    });
    throw new Error([error.message.slice(0, 300), ...(await Promise.all(lines))].join("\n"));
  });
}

async function clusterIp(name: string): Promise<string> {
  const found = await plane.admin.get<{ spec: { clusterIP: string } }>("Service", home, name, inTime());
  return found?.spec.clusterIP ?? "";
}

/** Calls the agent again and again while `act` runs. @returns how often each answer came */
async function underRequests(say: () => Promise<string>, act: () => Promise<unknown>): Promise<Map<string, number>> {
  const answers = new Map<string, number>();
  const stopping = new AbortController();
  const callers = Array.from({ length: 2 }, async () => {
    while (!stopping.signal.aborted) {
      const answer = await say().catch((error) => `failed: ${error.cause ?? error}`);
      answers.set(answer, (answers.get(answer) ?? 0) + 1);
      await sleep(100);
    }
  });
  await act().finally(() => stopping.abort());
  await Promise.all(callers);
  return answers;
}

async function exampleFiles(): Promise<Record<string, string>> {
  const entries = await readdir(example, { recursive: true, withFileTypes: true });
  const files = entries.filter((one) => one.isFile() && !one.parentPath.includes("node_modules"));
  const read = files.map(async ({ parentPath, name }) => {
    const file = path.join(parentPath, name);
    return [path.relative(example, file), await readFile(file, "utf8")] as const;
  });
  return Object.fromEntries(await Promise.all(read));
}

test("two installed charts lead from git to an agent with its own databases, and an upgrade and a rollback lose no request", async (context) => {
  const beganAtMs = performance.now();
  const note = (what: string) =>
    context.diagnostic(`${Math.round((performance.now() - beganAtMs) / 1_000)} s: ${what}`);
  await using stack = new AsyncDisposableStack();
  const port = await freePort();
  const postgres = await startPostgresServer({ port });
  assert.ok(postgres);
  stack.defer(() => postgres.stop());
  const owner = new pg.Client({ connectionString: postgres.url });
  await owner.connect();
  await owner.query("alter user postgres password 'secret'");
  await owner.end();
  const files = await exampleFiles();
  await using repository = await createAgentRepository(files);
  const served = path.join(plane.directory, "repositories");
  await mkdir(served);
  await symlink(repository.directory, path.join(served, "walk.git"));
  await using gitServer = await gitHttpServer(served, null);
  // Pods reach the programs of this machine at the address of the node only.
  await using database = await startTcpProxy(`http://127.0.0.1:${port}`, address);
  await using git = await startTcpProxy(gitServer.url, address);
  await using apiServer = await startTcpProxy(plane.address("admin").url, address);

  await make(plane.admin, "/api/v1/namespaces", { metadata: { name: home } });
  await make(plane.admin, `/api/v1/namespaces/${home}/secrets`, {
    metadata: { name: "pierhead" },
    stringData: {
      DATABASE_URL: `postgresql://postgres:secret@${new URL(database.url).host}/postgres`,
      PIERHEAD_MASTER_KEY: keys.master,
      PIERHEAD_ADMIN_KEY: keys.admin,
    },
  });
  const controlPlaneUrl = `http://pierhead.${home}.svc:8124`;
  const image = [`image.repository=${images.pierhead.replace(/:[^:]*$/, "")}`, "image.tag=test"];
  // Small enough for a node of two cores.
  const small = [...image, "replicas=1", "resources.requests.cpu=10m"];
  const charts = await chartsBefore();
  const controlPlane = [
    ...["existingSecret=pierhead", "mode=standalone", `publicUrl=${controlPlaneUrl}`, ...small],
    ...environment({ PIERHEAD_NODE_IMAGE: images.node, PIERHEAD_ALLOW_PRIVATE_NETWORK: "1" }),
  ];
  await helm("install", "pierhead", `${charts}/pierhead`, ...settings(controlPlane));
  await isRolledOut("pierhead");
  note("the control plane is installed");

  const client = createClient({ baseUrl: `http://${await clusterIp("pierhead")}:8124`, apiKey: keys.admin });
  const body = { compute_type: "k8s", compute_id: "cluster", compute_config: {} } as const;
  const { id: listener_id, listener_key } = await client.createListener({ body });
  const listener = [
    ...[`namespaces={${agents}}`, `controlPlaneUrl=${controlPlaneUrl}`, `listenerKey=${listener_key}`, ...small],
    ...["gateway.drainSeconds=30", "gateway.resources.requests.cpu=10m"],
    ...[`agents.postgresImage=${images.postgres}`, `agents.redisImage=${images.redis}`],
    ...[`builds.registry=${node.images.registry}/agents`, "builds.insecureRegistry=true"],
    ...[`builds.image=${images.buildkit}`],
    ...environment({
      // As in every pod, but with an address that pods of this node reach.
      KUBERNETES_SERVICE_HOST: address,
      KUBERNETES_SERVICE_PORT: new URL(apiServer.url).port,
      NODE_TLS_REJECT_UNAUTHORIZED: "0",
    }),
  ];
  await helm("install", "listener", `${charts}/pierhead-listener`, ...settings(listener));
  const everything = ["pierhead", "pierhead-listener", "pierhead-listener-gateway"] as const;
  for (const name of everything) await isRolledOut(name);
  await eventually(
    () => client.getListener({ listener_id }),
    ({ status }) => status === "CONNECTED",
    { timeoutMs: 120_000, what: "the listener's session" },
  );
  note("the listener is installed and connected");
  // What the listener's chart creates in the namespace of agents stays when a deployment goes.
  const before = await objectsIn(agents);

  // What Pierhead and the cluster's controllers add to the start of a pod with a prepared image.
  const gatewayIp = await clusterIp("pierhead-listener-gateway");
  const deployPrepared = async () => {
    using start = await followPodStart(plane.admin, agents);
    const postedMs = performance.now();
    const { id, url, latest_revision_id } = await client.createDeployment({
      body: {
        ...{ name: "prepared", source: "external_docker" },
        source_config: { listener_id, resource_spec: { cpu: 0.1, cpu_limit: 1, memory_mb: 128, max_scale: 1 } },
        source_revision_config: { image_uri: images.agent },
        secrets: Object.entries(elsewhere).map(([name, value]) => ({ name, value })),
      },
    });
    const ids = { deployment_id: id, revision_id: latest_revision_id as string };
    const { status, status_message } = await client.waitForRevision(ids, { timeoutMs: 120_000 });
    const deployedMs = performance.now();
    assert.equal(status, "DEPLOYED", status_message ?? "");
    const [preparedSlug] = new URL(url as string).pathname.split("/").slice(-1);
    const target = `http://${gatewayIp}/d/${preparedSlug}/`;
    const first = await Promise.all(Array.from({ length: 50 }, () => fetch(target).then((answer) => answer.text())));
    assert.deepEqual([...new Set(first)], ["one"], "the first requests after DEPLOYED are answered");
    const [podCreatedMs, podReadyMs] = await Promise.all([start.podCreatedMs, start.podReadyMs]);
    const steps = [podCreatedMs - postedMs, podReadyMs - podCreatedMs, deployedMs - podReadyMs].map(Math.round);
    note(
      `a prepared image: pod created after ${steps[0]} ms, ready after ${steps[1]} ms, DEPLOYED after ${steps[2]} ms`,
    );
    await client.deleteDeployment({ deployment_id: id });
    await client.waitForDeletion({ deployment_id: id }, { timeoutMs: 120_000 });
  };
  for (let round = 1; round <= 2; round += 1) await deployPrepared();

  const disk = await addDisk(plane, node, "of-the-walk", "Delete");
  const created = await client.createDeployment({
    body: {
      ...{ name: "walk", source: "github", secrets: [] },
      source_config: {
        ...{ listener_id, repo_url: `${git.url}/walk.git`, build_on_push: false },
        resource_spec: {
          ...{ cpu: 0.1, cpu_limit: 1, memory_mb: 256, memory_limit_mb: 768, max_scale: 1 },
          ...{ redis_cpu: 0.1, redis_cpu_limit: 0.5, redis_memory_mb: 128 },
          ...{ db_cpu: 0.1, db_cpu_limit: 0.5, db_memory_mb: 256, db_storage_gi: 1 },
        },
      },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    },
  });
  const deployment_id = created.id;
  const logOf = async (revision_id: string) => {
    const { logs } = await client.readBuildLogs({ deployment_id, revision_id, body: { limit: 500 } });
    return logs.map(({ message }) => message).join("\n");
  };
  const settled = async (revision_id: string | null | undefined) =>
    client.waitForRevision({ deployment_id, revision_id: revision_id as string }, { timeoutMs: 240_000 });
  const deployed = async (revision_id: string | null | undefined) => {
    const revision = await settled(revision_id);
    const log = revision.status === "DEPLOYED" ? "" : await logOf(revision.id);
    assert.equal(revision.status, "DEPLOYED", `${revision.status_message}\n${log.slice(-3_000)}`);
    return revision;
  };
  const redeploy = async () => {
    const source_revision_config = { repo_ref: "main" };
    const patched = await client.patchDeployment({ deployment_id, body: { source_revision_config } });
    return patched.latest_revision_id as string;
  };
  const { engine, engine_because, rollout } = await deployed(created.latest_revision_id);
  assert.deepEqual([engine, engine_because, rollout], ["postgres", "default", "rolling"]);
  note("the first commit serves");

  const [slug] = new URL(created.url as string).pathname.split("/").slice(-1);
  const url = `http://${gatewayIp}/d/${slug}`;
  const call = async (target: string, sent: object) => {
    const answer = await fetch(`${url}${target}`, {
      ...{ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(sent) },
      signal: AbortSignal.timeout(60_000),
    });
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(`${target} answered ${answer.status}: ${text.slice(0, 300)}`);
    return JSON.parse(text);
  };
  const say = async (content: string, thread?: string) => {
    const input = { messages: [{ role: "user", content }] };
    const target = thread === undefined ? "/runs/wait" : `/threads/${thread}/runs/wait`;
    const { messages } = await call(target, { assistant_id: "agent", input });
    return messages.at(-1).content as string;
  };
  assert.equal(await say("What is 6 * 7?"), "6 * 7 = 42");
  const { thread_id: thread } = await call("/threads", {});
  await say("My name is Ada.", thread);
  const components = (await list<PodView & LiveObject>("Pod", agents)).map(
    ({ metadata }) => metadata.labels?.["app.kubernetes.io/component"],
  );
  assert.deepEqual(components.toSorted(), ["postgres", "redis", "server"], "the agent and its own databases");
  assert.ok(existsSync(path.join(disk, "PG_VERSION")) || (await readdir(disk, { recursive: true })).length > 0);

  const greeting = files["src/agent.ts"]?.replace("I can calculate", "I can still calculate") ?? "";
  await repository.commit({ "src/agent.ts": greeting });
  const hello = () => say("hello");
  const seen = new Map<string, number>();
  const losesNothing = async (what: string, act: () => Promise<unknown>) => {
    const answers = await underRequests(hello, act);
    for (const [answer, count] of answers) seen.set(answer, (seen.get(answer) ?? 0) + count);
    const unexpected = [...answers].filter(([answer]) => !/^Hello! I can (still )?calculate/.test(answer));
    assert.deepEqual(unexpected, [], what);
    note(`${what}: ${[...answers.values()].reduce((sum, one) => sum + one, 0)} requests, none lost`);
  };
  await losesNothing("second commit", async () => deployed(await redeploy()));
  assert.equal(seen.size, 2, "both commits have answered");
  // A gateway learns a moment later than the listener that the last pod of the first commit ends. Until then that pod answers.
  await eventually(hello, (answer) => /still/.test(answer), { what: "an answer of the second commit" });
  assert.equal(await say("What is my name?", thread), "Your name is Ada.", "its threads are in its own PostgreSQL");

  const jobs = async () => (await list("Job", builds)).map(({ metadata }) => metadata.uid);
  const jobsBefore = new Set(await jobs());
  const again = await deployed(await redeploy());
  assert.match(await logOf(again.id), /This source was built before/);
  assert.deepEqual(
    (await jobs()).filter((uid) => !jobsBefore.has(uid)),
    [],
    "an unchanged commit is not built",
  );
  note("the unchanged commit serves");

  const manifest = JSON.parse(files["package.json"] ?? "");
  manifest.dependencies["not-in-the-lock"] = "1.0.0";
  await repository.commit({ "package.json": JSON.stringify(manifest), "src/agent.ts": "export const graph = 1;" });
  const broken = await settled(await redeploy());
  assert.equal(broken.status, "BUILD_FAILED", broken.status_message ?? "");
  assert.match(broken.status_message ?? "", /not-in-the-lock/);
  assert.match(await hello(), /still/, "the commit before goes on serving");
  note("the broken commit has failed");

  await losesNothing("upgrade", async () => {
    for (const [release, chart] of [
      ["pierhead", "pierhead"],
      ["listener", "pierhead-listener"],
    ] as const) {
      const changed = ["--reuse-values", ...settings(["image.tag=next"])];
      await helm("upgrade", release, `deploy/helm/${chart}`, ...changed);
    }
    for (const name of everything) await isRolledOut(name);
  });
  assert.equal((await client.getDeployment({ deployment_id })).url, created.url);
  await losesNothing("rollback", async () => {
    for (const release of ["listener", "pierhead"]) await helm("rollback", release, "1");
    for (const name of everything) await isRolledOut(name);
  });

  assert.ok((await node.images.tags("agents")).length > 0);
  await client.deleteDeployment({ deployment_id });
  await client.waitForDeletion({ deployment_id }, { timeoutMs: 120_000 });
  const left = async () => [
    ...(await node.images.tags("agents")),
    ...(await objectsIn(agents)).filter((one) => !before.includes(one)),
    ...(await objectsIn(builds)).filter((one) => /^(Job|Pod|Secret) /.test(one)),
    ...(await volumes()),
  ];
  await eventually(left, (objects) => objects.length === 0, {
    timeoutMs: 120_000,
    what: "no object, no reference to an image and no volume of the deployment",
  });
  assert.ok(!existsSync(disk), "the disk is deleted");
  note("nothing of the deployment is left");
  for (const release of ["listener", "pierhead"]) await helm("uninstall", release);
  note("both charts are uninstalled");
});
