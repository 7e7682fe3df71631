import assert from "node:assert/strict";
import { test } from "node:test";
import { runCli } from "../cli/run-cli.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { startTestServer } from "../support/server.ts";

test("setting the variable that a commit needs runs that commit, and setting another one does not", async () => {
  const works = nodeAgent("first");
  await using repository = await createAgentRepository(works);
  await using pierhead = await startTestServer();
  const { client, dataDir } = pierhead;
  const { id: deployment_id } = await client.createDeployment({
    body: {
      name: "needy",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const cli = (line: string, stdin = "") => runCli([...line.split(" "), "--data-dir", dataDir], { stdin });
  const latest = async () => {
    const { latest_revision_id: revision_id } = await client.getDeployment({ deployment_id });
    return client.waitForRevision({ deployment_id, revision_id: revision_id as string });
  };
  const version = async () => {
    const { url } = await client.getDeployment({ deployment_id });
    return ((await (await fetch(`${url}/version`)).json()) as { version: string }).version;
  };
  assert.equal((await latest()).status, "DEPLOYED");

  const next = nodeAgent("second");
  const check = 'if (!process.env.PASSPHRASE) throw new Error("PASSPHRASE is not set");\n';
  await repository.commit({ "server.js": `${check}${next["server.js"]}` });
  const failed = await cli("deploy --latest --name needy");
  assert.match(failed.stderr, /pierhead env set needy PASSPHRASE/);
  const { id } = await latest();

  const other = await cli("env set needy LOG_LEVEL", "debug");
  assert.equal(other.code, 0, other.stderr);
  assert.match(
    other.stderr,
    new RegExp(`Revision ${id.slice(0, 8)} did not deploy.*pierhead redeploy needy ${id.slice(0, 8)}`),
  );
  assert.equal(await version(), "first");

  await cli("deploy --latest --name needy");
  const set = await cli("env set needy PASSPHRASE", "word");
  assert.equal(set.code, 0, set.stderr);
  assert.doesNotMatch(set.stderr, /did not deploy/);
  assert.equal(await version(), "second");
});
