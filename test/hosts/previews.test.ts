import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { test } from "node:test";
import { promisify } from "node:util";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { webhookSecret } from "./github-server.ts";
import { openGithubWorld } from "./github-world.ts";

const run = promisify(execFile);
const { repository, github, t, integration } = await openGithubWorld();
const git = (...args: string[]) => run("git", ["-C", repository.directory, ...args]);

async function commitOn(branch: string, version: string): Promise<string> {
  await git("checkout", "--quiet", "-B", branch);
  const commit = await repository.commit(nodeAgent(version));
  await git("checkout", "--quiet", "main");
  return commit;
}

function openPull(number: number, sha: string, more: { fork?: boolean; labels?: string[] } = {}) {
  github.state.pulls.push({
    number,
    head: { ref: `feature-${number}`, sha, repo: { full_name: more.fork ? "stranger/bot" : "acme/bot" } },
    base: { ref: "main", repo: { full_name: "acme/bot" } },
    labels: (more.labels ?? []).map((name) => ({ name })),
    draft: false,
  });
}

const closePull = (number: number) => {
  github.state.pulls = github.state.pulls.filter((pull) => pull.number !== number);
};

async function tell(): Promise<void> {
  const body = JSON.stringify({
    ...{ action: "synchronize", nonce: randomUUID(), pull_request: { base: { ref: "main" } } },
    repository: { clone_url: `${github.origin}/acme/bot.git` },
  });
  const signature = `sha256=${createHmac("sha256", webhookSecret).update(body).digest("hex")}`;
  const headers = {
    "x-github-event": "pull_request",
    "x-github-delivery": randomUUID(),
    "x-hub-signature-256": signature,
  };
  const response = await fetch(`${t.url}/v1/integrations/github/webhook`, { method: "POST", body, headers });
  assert.deepEqual(await response.json(), { status: "accepted" });
}

const previews = async (parent: string) => {
  const { resources } = await t.client.listDeployments({ limit: 100 });
  return resources.filter(({ parent_deployment_id }) => parent_deployment_id === parent);
};
const previewsAre = (parent: string, holds: (found: Deployment[]) => boolean) =>
  eventually(() => previews(parent), holds, { timeoutMs: 300_000 });
const commentIs = (pattern: RegExp) =>
  eventually(
    () => [...github.state.comments.values()].map(({ body }) => body),
    (bodies) => bodies.some((body) => pattern.test(body)),
    {
      timeoutMs: 300_000,
    },
  );
const deployedWith = (id: string, sha: string) =>
  eventually(
    async () => (await t.client.listRevisions({ deployment_id: id })).resources[0],
    (newest) => newest?.status === "DEPLOYED" && newest.source_revision_config.repo_commit_sha === sha,
    { timeoutMs: 300_000 },
  );

async function makeParent(preview: Record<string, unknown>): Promise<string> {
  const { id } = await t.client.createDeployment({
    body: {
      ...{
        name: `bot-${randomUUID().slice(0, 6)}`,
        source: "github",
        secrets: [{ name: "API_KEY", value: "of-the-parent" }],
      },
      source_config: { repo_url: `${github.origin}/acme/bot`, integration_id: integration.id, build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  await t.client.patchGitSettings({ deployment_id: id, body: { preview: { enabled: true, ...preview } } });
  await eventually(
    () => t.client.getGitSettings({ deployment_id: id }),
    ({ followed }) => followed !== null,
  );
  return id;
}

/** Makes the previews of a deployment older by these hours and schedules a poll. */
async function passHours(parent: string, hours: number): Promise<void> {
  const { db } = t.server;
  const back = sql`${hours} * interval '1 hour'`;
  await db.query(sql`update previews set head_at = head_at - ${back} where parent_id = ${parent}`);
  await db.query(sql`update deployments set created_at = created_at - ${back} where parent_deployment_id = ${parent}`);
  await db.query(sql`update metric_minutes m set at = at - ${back} from deployments d
             where d.id = m.deployment_id and d.parent_deployment_id = ${parent}`);
  await db.query(sql`update branch_watches set look_at = now() where deployment_id = ${parent}`);
  await db.query(sql`update reconcile_queue set run_at = now() where deployment_id = ${parent}`);
}

test("deploys a pull request as a preview from its opening to its end", async () => {
  const parent = await makeParent({});
  const first = await commitOn("feature-7", "pull-one");
  openPull(7, first);
  openPull(8, first, { fork: true });
  await tell();
  const [child] = await previewsAre(parent, (found) => found.length > 0);
  assert.ok(child?.is_preview);
  assert.match(child.name, /-pr-7$/);
  await deployedWith(child.id, first);
  assert.deepEqual(child.secrets, [{ name: "API_KEY", value: "of-the-parent" }]);
  assert.equal(child.source_config.build_on_push, false);
  const answer = (await (await fetch(`${child.url}/`)).json()) as { version: string };
  assert.equal(answer.version, "pull-one");
  const bodies = await commentIs(/is ready/);
  assert.equal(bodies.length, 1);
  assert.ok(bodies[0]?.includes(String(child.url)), bodies[0]);
  await eventually(
    () => [...github.state.checks.values()],
    (checks) => checks.some(({ head_sha, conclusion }) => head_sha === first && conclusion === "success"),
  );

  await t.client.patchDeployment({
    deployment_id: parent,
    body: { secrets: [{ name: "API_KEY", value: "changed-later" }] },
  });
  const second = await commitOn("feature-7", "pull-two");
  closePull(7);
  openPull(7, second);
  await tell();
  const revision = await deployedWith(child.id, second);
  assert.equal(revision?.triggered_by, "pull_request");
  assert.equal((await t.client.getDeployment({ deployment_id: child.id })).secrets[0]?.value, "of-the-parent");
  await commentIs(new RegExp(`is ready.*${second.slice(0, 12)}`));
  assert.equal(github.state.comments.size, 1, "the existing comment is updated");

  closePull(7);
  await tell();
  await previewsAre(parent, (found) => found.length === 0);
  await commentIs(/was deleted/);
  await t.client.deleteDeployment({ deployment_id: parent });
});

test("limits previews, deletes an idle one until the next commit, and deletes all with their parent", async () => {
  const parent = await makeParent({ max_previews: 1, idle_ttl_hours: 2, trigger: "label", label: "try" });
  const [one, two] = [await commitOn("feature-21", "one"), await commitOn("feature-22", "two")];
  openPull(20, one);
  openPull(21, one, { labels: ["try"] });
  openPull(22, two, { labels: ["try"] });
  await tell();
  const [child] = await previewsAre(parent, (found) => found.length > 0);
  assert.match(child?.name ?? "", /-pr-21$/);
  await deployedWith(child?.id ?? "", one);
  closePull(22);
  await passHours(parent, 3);
  await previewsAre(parent, (found) => found.length === 0);
  const before = (await t.client.getGitSettings({ deployment_id: parent })).followed?.polled_at ?? "";
  await tell();
  await eventually(
    async () => (await t.client.getGitSettings({ deployment_id: parent })).followed?.polled_at ?? "",
    (lookedAt) => lookedAt > before,
  );
  assert.equal((await previews(parent)).length, 0, "no preview without a new commit");
  const next = await commitOn("feature-21", "three");
  closePull(21);
  openPull(21, next, { labels: ["try"] });
  await tell();
  const [again] = await previewsAre(parent, (found) => found.length > 0);
  assert.notEqual(again?.id, child?.id);
  await t.client.deleteDeployment({ deployment_id: parent });
  await previewsAre(parent, (found) => found.length === 0);
});

test("leaves no preview when the deployment is deleted while the pull requests are listed", async () => {
  const parent = await makeParent({});
  openPull(31, await commitOn("feature-31", "late"));
  const deleted = Promise.withResolvers<void>();
  github.state.beforePulls = async () => {
    github.state.beforePulls = null;
    await t.client.deleteDeployment({ deployment_id: parent });
    deleted.resolve();
  };
  await tell();
  await deleted.promise;
  await eventually(
    () => t.client.listDeployments({ deployment_ids: parent }),
    ({ resources }) => resources.length === 0,
    { timeoutMs: 60_000 },
  );
  await previewsAre(parent, (found) => found.length === 0);
  closePull(31);
});
