import assert from "node:assert/strict";
import { test } from "node:test";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer } from "../support/server.ts";

const files = {
  "pierhead.json": JSON.stringify({ build: ["node", "build.js"], start: ["node", "server.js"], health: "/" }),
  "build.js": `require("node:fs").writeFileSync("page", [process.env.NEXT_PUBLIC_WORD, Date.now()].join(" "));`,
  "server.js": `
const page = require("node:fs").readFileSync("page", "utf8");
require("node:http").createServer((_, answer) => answer.end(page)).listen(process.env.PORT, process.env.HOST);`,
};

test("changing a variable for browsers builds the serving commit again, and any other variable builds nothing", async () => {
  await using pierhead = await startTestServer();
  await using repository = await createAgentRepository(files);
  const { client } = pierhead;
  const settled = async (deployment: Deployment) => {
    const ids = { deployment_id: deployment.id, revision_id: deployment.latest_revision_id as string };
    const revision = await client.waitForRevision(ids);
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    return ids;
  };
  const ids = await settled(
    await client.createDeployment({
      body: {
        name: "page",
        source: "github",
        source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
        secrets: [{ name: "NEXT_PUBLIC_WORD", value: "morning" }],
      },
    }),
  );
  const { url } = await client.getDeployment(ids);
  const page = async () => (await fetch(`${url}/`)).text();
  const change = async (name: string, value: string) =>
    settled(await client.changeVariables({ ...ids, body: { set: [{ name, value }] } }));
  const first = await page();
  assert.match(first, /^morning /);
  await repository.commit({ ...files, "build.js": "process.exit(1);" }, "Break the build");

  await change("API_KEY", "secret");
  assert.equal(await page(), first);
  await change("NEXT_PUBLIC_WORD", "evening");
  assert.match(await page(), /^evening /);
  await settled(await client.rollbackRevision({ ...ids, body: {} }));
  assert.equal(await page(), first);
});
