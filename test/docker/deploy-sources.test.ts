import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { nodeImage } from "./base-image.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const agent = (version: string) => ({
  "pierhead.json": JSON.stringify({ start: ["node", "server.js"] }),
  "server.js": `
    const http = require("node:http");
    http.createServer((_, response) => response.end(${JSON.stringify(version)})).listen(process.env.PORT, process.env.HOST);
    process.on("SIGTERM", () => process.exit(0));
  `,
});

/**
 * A member of a pnpm workspace whose installation needs repairs: another member's script fails, the root installs git hooks, the
 * environment file is missing, and the build writes to another directory than the start script names.
 */
const pnpmMember = {
  "package.json": JSON.stringify({ private: true, scripts: { prepare: "git config core.hooksPath .hooks" } }),
  "pnpm-workspace.yaml": "packages:\n  - apps/*\n  - docs\n",
  "docs/package.json": JSON.stringify({ name: "docs", private: true, scripts: { postinstall: "exit 3" } }),
  "apps/agent/package.json": JSON.stringify({
    name: "agent",
    private: true,
    scripts: { build: "node build.js", start: "node --env-file=.env dist/server" },
  }),
  "apps/agent/build.js": 'require("node:fs").cpSync("src", "dist/src", { recursive: true });',
  "apps/agent/src/server.js": agent("from a workspace")["server.js"],
};

describe("docker: sources are deployed", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
  });
  after(() => end?.());

  const startServer = () =>
    startTestServer({ PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host, PIERHEAD_NODE_IMAGE: nodeImage });
  const settled = (client: TestServer["client"], id: string, revisionId: string | null) =>
    client.waitForRevision({ deployment_id: id, revision_id: revisionId as string }, { timeoutMs: 400_000 });
  const deployGit = async ({ client }: TestServer, repoUrl: string, configPath: string) => {
    const made = await client.createDeployment({
      body: {
        name: "agent",
        source: "github",
        source_config: { repo_url: repoUrl, deployment_type: "dev", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: configPath },
      },
    });
    return { id: made.id, first: await settled(client, made.id, made.latest_revision_id) };
  };
  const update = async ({ client }: TestServer, id: string) => {
    const body = { source_revision_config: { repo_ref: "main" } };
    const { latest_revision_id: revisionId } = await client.patchDeployment({ deployment_id: id, body });
    return settled(client, id, revisionId);
  };
  const urlOf = async ({ client }: TestServer, id: string) => (await client.getDeployment({ deployment_id: id })).url;
  const ask = async (pierhead: TestServer, id: string) =>
    fetch(`${await urlOf(pierhead, id)}/`).then((answer) => answer.text());

  test("a source is deployed from git; the next commit too; one that cannot be built fails; a rollback needs no build", async () => {
    await using pierhead = await startServer();
    await using repository = await createAgentRepository(agent("one"));
    const { id, first } = await deployGit(pierhead, repository.url, "pierhead.json");
    assert.equal(first.status, "DEPLOYED", first.status_message ?? "");
    assert.equal(await ask(pierhead, id), "one");
    await repository.commit(agent("two"));
    assert.equal((await update(pierhead, id)).status, "DEPLOYED");
    assert.equal(await ask(pierhead, id), "two");
    await repository.commit({
      "pierhead.json": JSON.stringify({ start: ["node"], build: [["node", "-e", "process.exit(9)"]] }),
    });
    const failed = await update(pierhead, id);
    assert.equal(failed.status, "BUILD_FAILED");
    assert.match(failed.status_message ?? "", /exit code 9/);
    assert.equal(await ask(pierhead, id), "two");
    const again = await pierhead.client.redeployRevision({ deployment_id: id, revision_id: first.id });
    assert.equal((await settled(pierhead.client, id, again.latest_revision_id)).status, "DEPLOYED");
    assert.equal(await ask(pierhead, id), "one");
  });

  test("a member of a pnpm workspace is deployed with the repairs of a build on the host", async () => {
    await using pierhead = await startServer();
    await using repository = await createAgentRepository(pnpmMember);
    const { id, first } = await deployGit(pierhead, repository.url, "apps/agent/package.json");
    const ids = { deployment_id: id, revision_id: first.id };
    const { logs } = await pierhead.client.readBuildLogs({ ...ids, body: { limit: 500 } });
    const log = logs.map(({ message }) => message).join("\n");
    assert.equal(first.status, "DEPLOYED", `${first.status_message}\n${log}`);
    assert.match(log, /Installing again only what the deployed member and the root need/);
    assert.match(log, /the script prepare needs a git repository\. The build goes on without it/);
    assert.equal(await ask(pierhead, id), "from a workspace");
  });
});
