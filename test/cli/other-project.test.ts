import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, rename } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { createDirectory, runCli } from "./run-cli.ts";

let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
});
after(() => server[Symbol.asyncDispose]());

/** Projects in directories of one name, and a user whose commands all run in one place. */
async function projects(files: Record<string, string>) {
  const at = await createDirectory(files);
  const cli = (...argv: string[]) =>
    runCli([...argv, "--data-dir", server.dataDir], {
      cwd: at.directory,
      env: { PIERHEAD_CONFIG_DIR: path.join(at.directory, "config"), PATH: process.env["PATH"] },
    });
  /** Deploys without waiting for the rollout. */
  const deploy = async (...argv: string[]) => {
    const { code, stderr } = await cli("deploy", ...argv, "--no-wait");
    assert.equal(code, 8, stderr);
  };
  const newest = async (name: string) => {
    const { deployment } = JSON.parse((await cli("status", name, "--json")).stdout) as { deployment: Deployment };
    return deployment.latest_revision_id;
  };
  return { ...at, cli, deploy, newest };
}

const below = (directory: string, files: Record<string, string>) =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [`${directory}/${name}`, text]));

test("does not replace an agent by another project only because their directories have the same name", async () => {
  await using at = await projects({
    ...below("shop/backend", nodeAgent("shop")),
    ...below("bank/backend", nodeAgent("bank")),
  });
  await at.deploy("shop/backend");
  await at.deploy("shop/backend"); // the same directory again
  const serving = await at.newest("backend");

  for (const more of [[], ["--dry-run"]]) {
    const refused = await at.cli("deploy", "bank/backend", ...more);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /backend was deployed from .*shop\/backend\. .*bank\/backend is another project\./);
    assert.match(refused.stderr, /deploy bank\/backend --name NAME/);
  }
  assert.equal(await at.newest("backend"), serving);

  await at.deploy("bank/backend", "--name", "bank");
  await at.deploy("bank/backend", "--name", "backend"); // the name says that it is meant
  assert.notEqual(await at.newest("backend"), serving);
  await at.deploy("bank/backend"); // it is the project of this name now
});

test("deploys a project on after its directory was moved, and from another clone of its repository", async () => {
  await using repository = await createAgentRepository(nodeAgent("one"));
  await using at = await projects(below("old/mover", nodeAgent("one")));
  await at.deploy("old/mover");
  await mkdir(path.join(at.directory, "new"));
  await rename(path.join(at.directory, "old/mover"), path.join(at.directory, "new/mover"));
  await at.deploy("new/mover");

  for (const place of ["here/cloned", "there/cloned"]) {
    execFileSync("git", ["clone", "--quiet", repository.url, path.join(at.directory, place)]);
    await at.deploy(place);
  }
});
