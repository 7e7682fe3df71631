import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { putCommitStatus } from "../../src/integrations/commit-status.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { openGithubWorld } from "./github-world.ts";

const { repository, github, t, integration } = await openGithubWorld();

async function lookNow(id: string): Promise<void> {
  await t.server.db.query(sql`update branch_watches set look_at = now() where deployment_id = ${id}`);
  await t.server.db.query(sql`update reconcile_queue set run_at = now() where deployment_id = ${id}`);
}

const checkOf = (sha: string, holds: (check: Record<string, unknown> | undefined) => boolean) =>
  eventually(() => [...github.state.checks.values()].find(({ head_sha }) => head_sha === sha), holds, {
    timeoutMs: 300_000,
  });

test("reports the result of a pushed commit to the host with a link, and the end of a failed log without secrets", async () => {
  const secret = "canary-of-the-log";
  const { id } = await t.client.createDeployment({
    body: {
      ...{ name: `bot-${randomUUID().slice(0, 6)}`, source: "github", secrets: [{ name: "TOKEN", value: secret }] },
      source_config: { repo_url: `${github.origin}/acme/bot`, integration_id: integration.id, build_on_push: true },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  await eventually(
    () => t.client.getGitSettings({ deployment_id: id }),
    ({ followed }) => followed !== null,
  );
  const good = await repository.commit(nodeAgent("good"));
  await lookNow(id);
  const success = await checkOf(good, (check) => check?.["conclusion"] === "success");
  assert.match(
    String(success?.["details_url"]),
    new RegExp(`/o/${t.server.credentials.workspaceId}/host/deployments/${id}$`),
  );
  assert.match(String(success?.["name"]), /^pierhead\/bot-/);

  github.state.outageOf = /check-runs/;
  github.state.outage = 503;
  const crash = `console.error("it broke: " + process.env.TOKEN + " \`\`\`"); process.exit(3);`;
  const bad = await repository.commit({ "server.js": crash });
  await lookNow(id);
  const failed = await eventually(
    async () => (await t.client.listRevisions({ deployment_id: id })).resources[0],
    (newest) => newest?.source_revision_config.repo_commit_sha === bad && newest.status === "DEPLOY_FAILED",
    { timeoutMs: 300_000 },
  );
  assert.match(failed?.status_message ?? "", /it broke/);
  assert.equal(await checkOf(bad, () => true), undefined, "no check exists while GitHub is unavailable");
  github.state.outage = null;
  await t.server.db.query(sql`update commit_reports set retry_at = now() where deployment_id = ${id}`);
  await lookNow(id);
  const failure = await checkOf(bad, (check) => check?.["conclusion"] === "failure");
  const summary = JSON.stringify(failure?.["output"]);
  assert.match(summary, /it broke: \*\*\* '''/);
  assert.ok(!JSON.stringify([...github.state.checks.values()]).includes(secret));
  await t.client.deleteDeployment({ deployment_id: id });
});

test("the end of a failed log has no secret of a variable group, and none that was replaced since", async () => {
  const [ofGroup, replaced, begins] = ["canary-of-the-group", "canary-that-was-replaced", "canary-of-the-gr"];
  const key = ["-----BEGIN KEY-----", "Zmlyc3QgbGluZSBvZiBhIGtleQ", "c2Vjb25kIGxpbmUgb2YgYSBrZXk", "-----END KEY-----"];
  const variables = [
    { name: "FROM_GROUP", value: ofGroup, is_secret: true },
    { name: "KEY", value: key.join("\n"), is_secret: true },
  ];
  const group = await t.client.createVariableGroup({ body: { name: `g-${randomUUID()}`, variables } });
  const secrets = [
    { name: "TOKEN", value: replaced },
    { name: "SHORT", value: begins },
  ];
  const { id } = await t.client.createDeployment({
    body: {
      ...{ name: `bot-${randomUUID().slice(0, 6)}`, source: "github", secrets, variable_group_ids: [group.id] },
      source_config: { repo_url: `${github.origin}/acme/bot`, integration_id: integration.id, build_on_push: true },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  await eventually(
    () => t.client.getGitSettings({ deployment_id: id }),
    ({ followed }) => followed !== null,
  );
  github.state.outageOf = /check-runs/;
  github.state.outage = 503;
  // The end of the log begins in the middle of the key.
  const crash = `console.error(process.env.KEY + "\\n" + "- \\n".repeat(36)); console.error("it broke: " + process.env.FROM_GROUP + " " + process.env.TOKEN); process.exit(3);`;
  const bad = await repository.commit({ "server.js": crash });
  await lookNow(id);
  await eventually(
    async () => (await t.client.listRevisions({ deployment_id: id })).resources[0],
    (newest) => newest?.source_revision_config.repo_commit_sha === bad && newest.status === "DEPLOY_FAILED",
    { timeoutMs: 300_000 },
  );
  await t.client.changeVariables({ deployment_id: id, body: { set: [{ name: "TOKEN", value: "another-value" }] } });
  github.state.outage = null;
  await t.server.db.query(sql`update commit_reports set retry_at = now() where deployment_id = ${id}`);
  await lookNow(id);
  const failure = await checkOf(bad, (check) => check?.["conclusion"] === "failure");
  const summary = JSON.stringify(failure?.["output"]);
  assert.match(summary, /it broke: \*\*\* \*\*\*/);
  for (const canary of [begins, replaced, ...key.slice(1, 3)]) assert.ok(!summary.includes(canary), canary);
  await t.client.deleteDeployment({ deployment_id: id });
});

test("sends commit statuses in the format of each host", async () => {
  const calls: { url: string; headers: Record<string, unknown>; body: Record<string, string> }[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    calls.push({
      url: request.url ?? "",
      headers: request.headers,
      body: JSON.parse(Buffer.concat(chunks).toString()),
    });
    response.writeHead(201).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sha = "a".repeat(40);
  const status = {
    name: "bot",
    commitSha: sha,
    state: "failure",
    link: "https://p.example/x",
    title: "Not deployed",
    text: "",
  } as const;
  for (const [host, repoUrl] of [
    ["github", `${origin}/acme/bot.git`],
    ["gitea", `${origin}/acme/bot`],
    ["gitlab", `${origin}/group/sub/bot.git`],
    ["bitbucket", `${origin}/scm/acme/bot.git`],
    ["git", `${origin}/acme/bot`],
  ] as const) {
    await putCommitStatus(
      { host, token: "t0ken", allowPrivateNetwork: true },
      { ...status, repoUrl },
      AbortSignal.timeout(10_000),
    );
  }
  server.close();
  assert.deepEqual(
    calls.map(({ url, headers, body }) => [url, headers["authorization"] ?? headers["private-token"], body["state"]]),
    [
      [`/api/v3/repos/acme/bot/statuses/${sha}`, "Bearer t0ken", "failure"],
      [`/api/v1/repos/acme/bot/statuses/${sha}`, "Bearer t0ken", "failure"],
      [`/api/v4/projects/group%2Fsub%2Fbot/statuses/${sha}`, "t0ken", "failed"],
      [`/rest/build-status/1.0/commits/${sha}`, "Bearer t0ken", "FAILED"],
    ],
  );
});
