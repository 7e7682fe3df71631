import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { agentProjectsIn } from "../../src/domain/agent-projects.ts";
import { startApi } from "../api/harness.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";

const repository = await createAgentRepository({
  ...nodeAgent("root"),
  "agents/My Agent/langgraph.json": "{}",
  "agents/a/langgraph.json": "{}",
  "node_modules/x/langgraph.json": "{}",
  "notlanggraph.json": "{}",
});
after(() => repository[Symbol.asyncDispose]());
const t = await startApi({ allowLocalSources: true, allowPrivateNetwork: true });
const find = (query: Record<string, string>, key = t.tenant.adminKey) =>
  t.ask({ url: `/v2/integrations/projects?${new URLSearchParams(query)}`, key });

test("finds the agent projects of a repository at any ref, except those in node_modules", async () => {
  const { status, body } = await find({ repo_url: repository.url });
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.ref, "main");
  assert.deepEqual(body.projects, [
    { config_path: "pierhead.json", directory: "", kind: "pierhead" },
    { config_path: "agents/My Agent/langgraph.json", directory: "agents/My Agent", kind: "langgraph" },
    { config_path: "agents/a/langgraph.json", directory: "agents/a", kind: "langgraph" },
  ]);
  const commit = await repository.commit({ "late/pierhead.json": "{}" });
  assert.equal((await find({ repo_url: repository.url, ref: body.commit_sha })).body.projects.length, 3);
  const later = (await find({ repo_url: repository.url, ref: "refs/heads/main" })).body;
  assert.deepEqual([later.commit_sha, later.projects.length], [commit, 4]);
});

test("explains an unknown ref, an unknown integration and an invalid address", async () => {
  for (const [query, status, words] of [
    [{ repo_url: repository.url, ref: "nowhere" }, 502, /There is no branch 'nowhere'. The default branch is 'main'/],
    [{ repo_url: repository.url, ref: "--upload-pack=x" }, 400, /ref/],
    [{ repo_url: "ext::sh -c x" }, 400, /repo_url/],
    [{ repo_url: "http://127.0.0.1:1/x/y" }, 502, /could not be reached/],
    [{ repo_url: repository.url, integration_id: randomUUID() }, 404, /not found/],
  ] as const) {
    const answer = await find(query);
    assert.equal(answer.status, status, JSON.stringify(answer.body));
    assert.match(JSON.stringify(answer.body), words);
  }
});

test("lists at most 200 projects, nearest to the root first", () => {
  const files = Array.from({ length: 5_000 }, (_, at) => `${"deep/".repeat(at % 7)}a${at}/langgraph.json`);
  const found = agentProjectsIn(files);
  assert.equal(found.length, 200);
  assert.ok(found.every(({ directory }) => !directory.includes("deep/deep")));
});
