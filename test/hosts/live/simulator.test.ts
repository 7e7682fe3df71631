import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { after, test } from "node:test";
import { type CommitStatus, putCheckRun, putCommitStatus } from "../../../src/integrations/commit-status.ts";
import { createGithubApp } from "../../../src/integrations/github-app.ts";
import { convertManifest } from "../../../src/integrations/github-manifest.ts";
import { listOpenPulls, putComment } from "../../../src/integrations/github-pulls.ts";
import { callHost } from "../../../src/integrations/host-call.ts";
import { HostFailure } from "../../../src/integrations/host-failure.ts";
import { startApi } from "../../api/harness.ts";
import { freePort } from "../../support/free-port.ts";
import { appId, privateKeyPem } from "../github-server.ts";

const simulator = fork(path.join(import.meta.dirname, "simulator.mjs"), [String(await freePort())], {
  stdio: ["ignore", "ignore", "ignore", "ipc"],
  execArgv: [],
});
after(() => void simulator.kill("SIGKILL"));
const [{ port }] = (await once(simulator, "message")) as [{ port: number }];
const webUrl = `http://127.0.0.1:${port}`;
const github = createGithubApp({
  appId,
  privateKey: privateKeyPem,
  webhookSecret: null,
  webUrl,
  client: null,
  allowPrivateNetwork: true,
});
const signal = () => AbortSignal.timeout(30_000);

test("attaches an installation and lists its repositories with the calls of existing clients", async () => {
  const t = await startApi({}, { github });
  const operator = await t.mintKey({ role: "admin", isOperator: true });
  const made = await t.ask({
    ...{ method: "POST", url: "/v2/admin/integrations/github", key: operator },
    payload: { installation_id: 41, workspace_id: t.tenant.tenantId },
  });
  assert.equal(made.status, 201, made.text);
  const installs = (await t.ask({ url: "/v1/integrations/github/install" })).body;
  assert.equal(installs.length, 1);
  assert.equal(installs[0].name, "octocat");
  const repositories = (await t.ask({ url: `/v1/integrations/github/${installs[0].id}/repos` })).body;
  assert.deepEqual(
    repositories.map(({ name, owner, default_branch }: Record<string, string>) => [owner, name, default_branch]),
    [
      ["acme", "another-bot", "main"],
      ["acme", "support-bot", "main"],
    ],
  );
});

test("reads open pull requests in the format of GitHub's examples", async () => {
  const token = await github.mintToken(41, { permissions: { pull_requests: "read" } }, signal());
  const [pull] = await listOpenPulls(github.apiWith(token), "acme/support-bot", "main", signal());
  assert.equal(pull?.number, 1347);
  assert.match(pull?.headSha ?? "", /^[0-9a-f]{40}$/);
  assert.equal(typeof pull?.headRef, "string");
});

test("sends check runs, commit statuses and comments that match GitHub's OpenAPI document", async () => {
  const token = await github.mintToken(41, { permissions: { checks: "write" } }, signal());
  const api = github.apiWith(token);
  const status: Omit<CommitStatus, "state"> = {
    ...{ repoUrl: `${webUrl}/acme/support-bot`, commitSha: "a".repeat(40), name: "support-bot" },
    ...{ link: "https://p.example/o/1", title: "Deployed", text: "fine" },
  };
  for (const state of ["in_progress", "success", "failure", "cancelled", "skipped"] as const) {
    const id = await putCheckRun(api, { ...status, state }, null, signal());
    assert.match(id, /^\d+$/);
    await putCheckRun(api, { ...status, state }, id, signal());
    await putCommitStatus({ host: "github", token, allowPrivateNetwork: true }, { ...status, state }, signal());
  }
  const at = { repository: "acme/support-bot", number: 7 };
  assert.equal(typeof (await putComment(api, { ...at, id: null }, "It is ready.", signal())), "number");
  assert.equal(typeof (await putComment(api, { ...at, id: 4 }, "It is ready.", signal())), "number");
});

test("reads an App created from a manifest in the format of GitHub's example", async () => {
  const made = await convertManifest({ webUrl, allowPrivateNetwork: true }, "c0de", signal());
  assert.deepEqual([made.appId, made.name, made.clientId.startsWith("Iv1.")], ["1", "Octocat App", true]);
  assert.match(made.privateKey, /^-----BEGIN RSA PRIVATE KEY-----/);
  assert.ok(made.webhookSecret);
});

test("fails when the simulator rejects a request that does not match the document", async () => {
  const token = await github.mintToken(41, { permissions: { checks: "write" } }, signal());
  const bad = { method: "POST", path: "/repos/acme/support-bot/check-runs", body: { head_sha: 5 }, signal: signal() };
  await assert.rejects(callHost(github.apiWith(token), bad), HostFailure);
});
