import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/** A whole server whose replicas are simulated, changed by a pipeline. */
let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated", PIERHEAD_ALLOW_LOCAL_SOURCES: "1" });
});
after(() => server[Symbol.asyncDispose]());

const file = `deployments:
  shop:
    source: internal_template
    template: node-server
    type: dev
    variables:
      LOG_LEVEL: info
    secrets:
      TOKEN: SHOP_TOKEN
`;

async function pipeline() {
  const directory = await createDirectory({ "pierhead.yaml": file });
  const at = path.join(directory.directory, "pierhead.yaml");
  const run = async (argv: string[], env = { SHOP_TOKEN: "hunter2" }) => {
    const ran = await runCli([...argv, "--data-dir", server.dataDir], { cwd: directory.directory, env });
    assert.doesNotMatch(ran.stdout + ran.stderr, /hunter2/);
    return ran;
  };
  return { run, write: (text: string) => writeFile(at, text), read: () => readFile(at, "utf8"), ...directory };
}

test("a pipeline applies a file twice, changes a variable, and pulls the same file back", async () => {
  await using at = await pipeline();
  const first = await at.run(["plan"]);
  assert.deepEqual([first.code, first.stdout.split("\n")[0]], [2, "+ shop"], first.stderr);
  assert.equal((await at.run(["apply", "--dry-run"])).code, 0);
  assert.deepEqual((await server.client.listDeployments({})).resources, []);

  const applied = await at.run(["apply"]);
  assert.equal(applied.code, 0, applied.stderr);
  assert.match(applied.stderr, /^Applied 1 change in \d/m);
  const [made] = (await server.client.listDeployments({})).resources;
  assert.deepEqual(made?.secrets.map(({ name, value }) => `${name}=${value}`).sort(), [
    "LOG_LEVEL=info",
    "TOKEN=hunter2",
  ]);

  const again = await at.run(["apply", "--json"]);
  assert.deepEqual([again.code, JSON.parse(again.stdout).changes], [0, []]);
  assert.equal((await at.run(["plan"])).code, 0);
  const [same] = (await server.client.listDeployments({})).resources;
  assert.equal(same?.latest_revision_id, made?.latest_revision_id);

  await at.write(file.replace("type: dev", "type: dev\n    build_command: echo built"));
  assert.match((await at.run(["plan"])).stdout, /^~ shop\n {4}build_command: "echo built"/);
  const built = await at.run(["apply"]);
  assert.equal(built.code, 0, built.stderr);

  await at.write(file.replace("LOG_LEVEL: info", "LOG_LEVEL: debug"));
  const changed = await at.run(["plan", "--json"]);
  assert.equal(changed.code, 2);
  const { changes } = JSON.parse(changed.stdout);
  assert.deepEqual(changes, [
    { name: "shop", action: "change", fields: [], variables: { set: ["LOG_LEVEL"], removed: [] } },
  ]);
  assert.equal((await at.run(["apply"])).code, 0);
  assert.equal((await at.run(["plan"])).code, 0);

  const declared = await at.read();
  assert.equal((await at.run(["pull"])).code, 0);
  assert.equal((await at.run(["plan"])).code, 0);
  const pulled = await at.read();
  for (const line of declared.trimEnd().split("\n")) assert.ok(pulled.includes(`${line}\n`), `${line} in ${pulled}`);

  await at.write("deployments: {}\n");
  assert.equal((await at.run(["plan"])).code, 0, "a deployment that the file does not name is left alone");
  assert.match((await at.run(["plan", "--prune", "shop"])).stdout, /^- shop/);
  assert.equal((await at.run(["apply", "--prune", "shop"])).code, 0);
  assert.equal((await server.client.listDeployments({ name: "shop" })).resources.length, 0);
});

test("a file names the listener of a deployment, which stays there", async () => {
  await using at = await pipeline();
  const body = {
    compute_type: "k8s" as const,
    ...{ compute_id: "cluster-1", compute_config: { k8s_namespaces: ["a", "b"] } },
  };
  const { id } = await server.client.createListener({ body });
  const declared = (listener: string, namespace: string) => `deployments:
  placed: {source: external_docker, image: "registry.example.com/agent:1", listener: ${listener}, namespace: ${namespace}}
`;
  await at.write(declared("cluster-2", "a"));
  const unknown = await at.run(["plan"]);
  assert.deepEqual([unknown.code, /no listener "cluster-2".*\n.*cluster-1/.test(unknown.stderr)], [1, true]);
  await at.write(declared("cluster-1", "a"));
  assert.equal((await at.run(["apply", "--no-wait"])).code, 8);
  const [made] = (await server.client.listDeployments({ name: "placed" })).resources;
  assert.equal(made?.source_config.listener_id, id);
  assert.equal(made?.source_config.listener_config?.k8s_namespace, "a");
  assert.equal((await at.run(["plan"])).code, 0);
  assert.equal((await at.run(["pull"])).code, 0);
  assert.match(await at.read(), /listener: cluster-1\n +namespace: a\n/);
  assert.equal((await at.run(["plan"])).code, 0);
  await at.write(declared("cluster-1", "b"));
  const moved = await at.run(["plan"]);
  assert.deepEqual([moved.code, /placed does not run in the namespace b/.test(moved.stderr)], [1, true], moved.stderr);
  await at.write("deployments:\n  placed: {source: external_docker, namespace: b}\n");
  assert.match((await at.run(["plan"])).stderr, /namespace needs a listener/);
});

test("a file creates a listener and the deployment on it, and changes and pulls its settings", async () => {
  await using at = await pipeline();
  const declared = (settings: string) => `listeners:
  cluster-3: ${settings}
deployments:
  there: {source: external_docker, image: "registry.example.com/agent:1", listener: cluster-3, namespace: a}
`;
  await at.write(declared("{ namespaces: [a] }"));
  const planned = await at.run(["plan"]);
  assert.match(
    planned.stdout,
    /^\+ listeners\.cluster-3\n {4}namespaces: \["a"\]\n\+ there\n(?: {4}.*\n)*? {4}listener: "cluster-3"\n/,
  );
  const applied = await at.run(["apply", "--no-wait"]);
  assert.equal(applied.code, 8, applied.stderr);
  assert.match(applied.stderr, /pierhead api POST \/v2\/listeners\/\S+\/enrollment/);
  assert.doesNotMatch(applied.stdout + applied.stderr, /\bph_/, "its key is not shown");
  const [made] = (await server.client.listDeployments({ name: "there" })).resources;
  const listener = (await server.client.listListeners({})).resources.find(
    ({ compute_id: name }) => name === "cluster-3",
  );
  assert.equal(made?.source_config.listener_id, listener?.id);
  assert.equal((await at.run(["plan"])).code, 0);
  await at.write(declared("{ namespaces: [a, b], log_level: debug }"));
  const changed = await at.run(["plan"]);
  assert.equal(
    changed.stdout,
    '~ listeners.cluster-3\n    namespaces: ["a"] -> ["a","b"]\n    log_level: "own" -> "debug"\n',
  );
  assert.equal((await at.run(["apply", "--no-wait"])).code, 8);
  assert.equal((await at.run(["pull"])).code, 0);
  assert.match(await at.read(), /cluster-3:\n {4}namespaces:\n {6}- a\n {6}- b\n {4}log_level: debug\n/);
  assert.equal((await at.run(["plan"])).code, 0);
  await at.write(declared("{ namespace: [a] }"));
  assert.match((await at.run(["plan"])).stderr, /listeners\.cluster-3\.namespace is not known/);
});

test("prunes the deployments with the tag of the file, and those of no other file", async () => {
  await using at = await pipeline();
  const declared = (...names: string[]) =>
    [
      "tag: repository=web",
      "deployments:",
      ...names.flatMap((name) => [`  ${name}: {source: internal_template, template: node-server, type: dev}`]),
    ].join("\n");
  await at.write(declared("front", "back"));
  const unknown = await at.run(["diff"]);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /There is no tag repository=web\.\n.*pierhead admin tags add repository web\n/);
  assert.equal((await at.run(["admin", "tags", "add", "repository", "web", "shop"])).code, 0);
  assert.equal((await at.run(["admin", "tags", "add", "team", "search"])).code, 0);

  const applied = await at.run(["apply", "--no-wait"]);
  assert.equal(applied.code, 8, applied.stderr);
  assert.match(applied.stdout, /^\+ front\n(?: {4}.*\n)* {4}tag: "repository=web"\n\+ back\n/);
  assert.equal((await at.run(["admin", "tags", "set", "front", "repository=web", "team=search"])).code, 0);
  assert.equal((await at.run(["admin", "tags", "set", "back", "team=search"])).code, 0);
  const lost = await at.run(["diff"]);
  assert.deepEqual([lost.code, lost.stdout], [2, '~ back\n    tag: "repository=web"\n']);
  assert.match(lost.stderr, /^1 change to make\.\n.*Apply the changes: pierhead apply\n$/);
  await at.run(["apply"]);
  const tags = await at.run(["admin", "tags", "show", "back"]);
  assert.match(tags.stdout, /repository +web\nteam +search\n/);

  assert.equal((await at.run(["deploy", "--template", "node-server", "--name", "stranger", "--no-wait"])).code, 8);
  await at.write(declared("front"));
  const left = await at.run(["diff"]);
  assert.deepEqual([left.code, left.stdout], [0, ""]);
  assert.match(left.stderr, /^Not in the file, but with its tag: back\. To delete: --prune\nNo changes\.\n$/);
  assert.equal((await at.run(["diff", "--prune"])).stdout, "- back\n");
  assert.equal((await at.run(["apply", "--prune"])).code, 0);
  const names = (await server.client.listDeployments({ name_contains: "" })).resources.map(({ name }) => name);
  assert.ok(names.includes("stranger") && names.includes("front") && !names.includes("back"), names.join(", "));

  await at.write(declared("front").replace("=web", "=shop"));
  const taken = await at.run(["diff"]);
  assert.equal(taken.code, 1);
  assert.match(taken.stderr, /front has the tag repository=web, so another file declares it/);
  await at.write(declared("front").replace("tag: repository=web\n", ""));
  assert.match((await at.run(["apply", "--prune"])).stderr, /deletes the deployments with the tag of pierhead\.yaml/);
});

test("another repo_url runs the code of the other repository", async () => {
  await using at = await pipeline();
  await using one = await createAgentRepository();
  await using two = await createAgentRepository();
  const commit = await two.commit(nodeAgent("two"));
  const declared = (url: string) => `deployments:
  mover:
    source: github
    repo_url: ${url}
    ref: refs/heads/main
    config_path: pierhead.json
    type: dev
`;
  await at.write(declared(one.url));
  const begun = await at.run(["apply", "--no-wait"]);
  assert.deepEqual([begun.code, begun.stdout.split("\n")[0]], [8, "+ mover"], begun.stderr);
  const first = await newest("mover");
  assert.equal((await at.run(["plan"])).code, 0, "the server writes refs/heads/main as main");

  await at.write(declared(two.url));
  assert.equal((await at.run(["apply", "--no-wait"])).code, 8);
  const second = await newest("mover");
  assert.notEqual(second.id, first.id);
  assert.equal((await at.run(["apply"])).code, 0);
  const { source_revision_config: code } = await server.client.getRevision(second.ids);
  assert.equal(code.repo_commit_sha, commit);
  assert.equal((await at.run(["plan"])).code, 0);
});

test("some resources can be declared; the others stay as they are", async () => {
  await using at = await pipeline();
  const declared = (resources: string) =>
    `deployments:\n  sized:\n    source: external_docker\n    image: 127.0.0.1:1/agent:1\n    resources: ${resources}\n`;
  await at.write(declared("{cpu: 0.25, memory_mb: 700, max_scale: 3}"));
  await at.run(["apply", "--no-wait"]);
  assert.equal((await at.run(["plan"])).code, 0, "the server rounds 0.25 to 0.2");

  await at.write(declared("{max_scale: 2}"));
  const changed = await at.run(["plan"]);
  assert.match(changed.stdout, /resource_spec: \{"max_scale":3\} -> \{"max_scale":2\}/);
  await at.run(["apply", "--no-wait"]);
  const { source_config: config } = (await newest("sized")).deployment;
  const { cpu, memory_mb, max_scale } = config.resource_spec ?? {};
  assert.deepEqual({ cpu, memory_mb, max_scale }, { cpu: 0.2, memory_mb: 700, max_scale: 2 });
  assert.equal((await at.run(["pull"])).code, 0);
  assert.match(await at.read(), /resources:\n {6}max_scale: 2\n$/);
  assert.equal((await at.run(["plan"])).code, 0);
  // A new file has no defaults: those of workers (`queue_*`) would add workers to a copy.
  assert.equal((await at.run(["pull", "sized", "--file", "new.yaml"])).code, 0);
  const pulled = await readFile(path.join(at.directory, "new.yaml"), "utf8");
  assert.match(pulled, /resources:\n {6}cpu: 0.2\n {6}max_scale: 2\n {6}memory_mb: 700\n$/);

  // Only deployers see what a deployment was given.
  const { key } = await server.client.createApiKey({ body: { name: "reader of sizes", role: "reader" } });
  const env = { PIERHEAD_URL: server.url, PIERHEAD_API_KEY: key };
  const read = await runCli(["pull", "sized", "--file", "read.yaml"], { cwd: at.directory, env });
  assert.equal(read.code, 0, read.stderr);
});

test("applying a file again fails as long as the newest revision has failed", async () => {
  await using at = await pipeline();
  await at.write(file.replace("shop:", "broken:").replace("LOG_LEVEL: info", "SIMULATE_START: exit"));
  for (const isFirst of [true, false]) {
    const { code, stderr } = await at.run(["apply"]);
    assert.equal(code, 1, stderr);
    assert.equal(stderr.includes("Creating broken"), isFirst);
    assert.match(stderr, /The newest revision of broken failed/);
  }
  assert.equal((await at.run(["apply", "--no-wait"])).code, 1);

  const { key } = await server.client.createApiKey({ body: { name: "reader", role: "reader" } });
  const env = { SHOP_TOKEN: "hunter2", PIERHEAD_URL: server.url, PIERHEAD_API_KEY: key };
  for (const command of ["plan", "pull"]) {
    const { code, stderr } = await runCli([command], { cwd: at.directory, env });
    assert.deepEqual([code, /A reader cannot see the values of variables/.test(stderr)], [4, true], stderr);
  }
});

async function newest(name: string) {
  const [deployment] = (await server.client.listDeployments({ name })).resources;
  assert.ok(deployment?.latest_revision_id);
  const id = deployment.latest_revision_id;
  return { id, deployment, ids: { deployment_id: deployment.id, revision_id: id } };
}

test("a file with a mistake ends with exit code 1 and names the mistake", async () => {
  await using at = await pipeline();
  const failing: [string, RegExp][] = [
    [file.replace("template:", "templat:"), /deployments\.shop\.templat is not known/],
    [file.replace("info", "5"), /deployments\.shop\.variables\.LOG_LEVEL must be a text/],
    [file.replace("internal_template", "zip"), /deployments\.shop\.source must be one of/],
    [`${file}  shop: {}\n`, /unique/],
    [file.replace("LOG_LEVEL: info", "# LOG_LEVEL: info"), /deployments\.shop\.variables is empty\. Write \{\}/],
    [file.replace("SHOP_TOKEN", "OTHER"), /needs the secret TOKEN, but the environment variable OTHER is not set/],
  ];
  for (const [text, words] of failing) {
    await at.write(text);
    const { code, stderr } = await at.run(["plan"]);
    assert.equal(code, 1, stderr);
    assert.match(stderr, words);
  }
  await at.write(file);
  assert.match((await at.run(["plan", "--prune", "shop"])).stderr, /cannot be pruned/);
});

test("a file sets alert rules of the workspace, leaves the others, and pulls what it declares", async () => {
  await using at = await pipeline();
  await at.write("deployments: {}\nalerts:\n  latency_p95: { enabled: true, threshold: 2000 }\n");
  const planned = await at.run(["plan"]);
  assert.deepEqual([planned.code, planned.stdout.split("\n")[0]], [2, "~ alerts.latency_p95"], planned.stderr);
  assert.equal((await at.run(["apply"])).code, 0);
  assert.equal((await at.run(["plan"])).code, 0);
  const { rules } = await server.client.listAlertRules({});
  const rule = rules.find(({ kind }) => kind === "latency_p95");
  assert.deepEqual([rule?.enabled, rule?.threshold], [true, 2000]);
  await server.client.changeAlertRule({ body: { kind: "latency_p95", threshold: 3000 } });
  assert.equal((await at.run(["pull"])).code, 0);
  assert.match(await at.read(), /alerts:\n {2}latency_p95:\n {4}enabled: true\n {4}threshold: 3000\n/);
  await at.write("deployments: {}\nalerts: { latency: {} }\n");
  assert.match((await at.run(["plan"])).stderr, /alerts\.latency is not known\. Rules: crash_looping/);
});

test("a file gives listeners labels and places deployments by them, and `deploy --where` does the same", async () => {
  await using at = await pipeline();
  const declared = (labels: string, where: string) => `listeners:
  cluster-eu: { namespaces: [a], labels: ${labels} }
deployments:
  european: {source: external_docker, image: "registry.example.com/agent:1", where: ${where}}
`;
  await at.write(declared("{ region: eu }", "{ region: eu }"));
  const planned = await at.run(["plan"]);
  assert.match(
    planned.stdout,
    /labels: \{"region":"eu"\}\n\+ european\n(?: {4}.*\n)*? {4}listener_selector: \{"region":"eu"\}/,
  );
  const applied = await at.run(["apply", "--no-wait"]);
  assert.equal(applied.code, 8, applied.stderr);
  const find = async (name: string) => (await server.client.listDeployments({ name })).resources[0]?.source_config;
  const listener = (await server.client.listListeners({})).resources.find((one) => one.compute_id === "cluster-eu");
  assert.equal((await find("european"))?.listener_id, listener?.id);
  assert.equal((await at.run(["plan"])).code, 0);
  assert.equal((await at.run(["pull"])).code, 0);
  assert.match(await at.read(), /where:\n +region: eu\n/);
  assert.equal((await at.run(["plan"])).code, 0);

  await at.write(declared("{ region: eu, gpu: l4 }", "{ gpu: l4 }"));
  assert.match((await at.run(["plan"])).stdout, /^~ listeners\.cluster-eu\n/, "labels of the same file count");
  await at.write(declared("{ region: eu }", "{ gpu: l4 }"));
  const moved = await at.run(["plan"]);
  assert.deepEqual(
    [moved.code, /european does not run on a listener with the labels gpu=l4/.test(moved.stderr)],
    [1, true],
  );
  await at.write(declared("{ region: 1 }", "{ region: eu }"));
  assert.match((await at.run(["plan"])).stderr, /listeners\.cluster-eu\.labels\.region must be a text/);

  const deploy = (...argv: string[]) =>
    at.run(["deploy", "--template", "node-server", "--name", "chosen", "--no-wait", ...argv]);
  assert.match((await deploy("--where", "region=mars")).stderr, /no listener fits .*region=eu/);
  assert.match((await deploy("--where", "region")).stderr, /--where needs KEY=VALUE, not "region"/);
  assert.match((await deploy("--where", "region=eu", "--listener", "cluster-eu")).stderr, /exclude each other/);
  const shown = await deploy("--where", "region=eu", "--where", "gpu=l4", "--dry-run", "--json");
  assert.deepEqual(
    JSON.parse(shown.stdout).changes[0].fields.find((one: { field: string }) => one.field.endsWith("listener_selector"))
      ?.to,
    { region: "eu", gpu: "l4" },
    shown.stdout,
  );
});
