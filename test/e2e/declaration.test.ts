import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/** A whole server whose replicas are simulated, changed by a pipeline. */
let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
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

test("a file with a mistake ends with exit code 1 and names the mistake", async () => {
  await using at = await pipeline();
  const failing: [string, RegExp][] = [
    [file.replace("template:", "templat:"), /deployments\.shop\.templat is not known/],
    [file.replace("info", "5"), /deployments\.shop\.variables\.LOG_LEVEL must be a text/],
    [file.replace("internal_template", "zip"), /deployments\.shop\.source must be one of/],
    [`${file}  shop: {}\n`, /unique/],
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
