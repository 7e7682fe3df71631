import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/** A whole server with simulated replicas, which the tests change with the CLI. */
let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
});
after(() => server[Symbol.asyncDispose]());

const fileWith = (groups: string) => `deployments:
  shop:
    source: internal_template
    template: node-server
    type: dev
    variable_groups: ${groups}
`;

test("a file names the variable groups of a deployment, and pull writes them back", async () => {
  const { client, dataDir } = server;
  await using at = await createDirectory({ "pierhead.yaml": fileWith("[keys, shop]") });
  const file = path.join(at.directory, "pierhead.yaml");
  const run = (...argv: string[]) => runCli([...argv, "--data-dir", dataDir], { cwd: at.directory });
  const unknown = await run("plan");
  assert.deepEqual([unknown.code, unknown.stderr.includes("the variable group keys, but there is none")], [1, true]);

  for (const name of ["keys", "shop"])
    await client.createVariableGroup({
      body: { name, variables: [{ name: `FROM_${name.toUpperCase()}`, value: "1" }] },
    });
  assert.match((await run("plan")).stdout, /^\+ shop\n[\s\S]*variable_groups: \["keys","shop"\]/);
  const applied = await run("apply");
  assert.equal(applied.code, 0, applied.stderr);
  const [made] = (await client.listDeployments({})).resources;
  assert.ok(made);
  const used = async () =>
    (await client.getDeploymentVariableGroups({ deployment_id: made.id })).groups.map(
      ({ name, deployments }) => `${name} ${deployments[0]?.is_current}`,
    );
  assert.deepEqual(await used(), ["keys true", "shop true"]);
  const revisions = async () => (await client.listRevisions({ deployment_id: made.id })).resources.length;
  assert.equal(await revisions(), 1, "the first revision has the variables already");
  assert.equal((await run("plan")).code, 0);

  await writeFile(file, fileWith("[shop]"));
  const changed = await run("diff");
  assert.deepEqual([changed.code, changed.stdout.includes('variable_groups: ["keys","shop"] -> ["shop"]')], [2, true]);
  assert.equal((await run("apply")).code, 0);
  assert.deepEqual([await used(), await revisions()], [["shop true"], 2]);

  await writeFile(file, fileWith("[]"));
  assert.equal((await run("apply")).code, 0);
  assert.deepEqual(await used(), []);
  assert.equal((await run("pull")).code, 0);
  assert.match(await readFile(file, "utf8"), /variable_groups: \[\]/);

  await client.putDeploymentVariableGroups({
    deployment_id: made.id,
    body: { variable_group_ids: (await client.listVariableGroups({})).resources.map(({ id }) => id) },
  });
  assert.equal((await run("pull", "shop", "--file", "new.yaml")).code, 0);
  assert.match(await readFile(path.join(at.directory, "new.yaml"), "utf8"), /variable_groups:\n\s+- keys\n\s+- shop/);
});

test("names the field when variable_groups is not a list of names", async () => {
  await using at = await createDirectory({ "pierhead.yaml": fileWith("") });
  const run = () => runCli(["plan", "--data-dir", server.dataDir], { cwd: at.directory });
  assert.match((await run()).stderr, /deployments\.shop\.variable_groups is empty\. Write \[\] to use none/);
  await writeFile(path.join(at.directory, "pierhead.yaml"), fileWith("keys"));
  assert.match((await run()).stderr, /must be a list of names/);
});
