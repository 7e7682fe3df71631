import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { test } from "node:test";
import { promisify } from "node:util";
import type { Revision } from "../../src/contract/revisions/revision.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { webhookSecret } from "./github-server.ts";
import { openGithubWorld } from "./github-world.ts";
import { pushOf } from "./recorded-messages.ts";

const run = promisify(execFile);
const { repository, github, t, integration } = await openGithubWorld();

async function tell(commit: string, branch = "main"): Promise<void> {
  const body = JSON.stringify(pushOf("acme/bot", branch, commit, github.origin));
  const signature = `sha256=${createHmac("sha256", webhookSecret).update(body).digest("hex")}`;
  const response = await fetch(`${t.url}/v1/integrations/github/webhook`, {
    method: "POST",
    body,
    headers: { "x-github-event": "push", "x-github-delivery": randomUUID(), "x-hub-signature-256": signature },
  });
  assert.equal(response.status, 202, await response.text());
}

async function create(build_on_push = true): Promise<string> {
  const { id } = await t.client.createDeployment({
    body: {
      ...{ name: `bot-${randomUUID().slice(0, 8)}`, source: "github" },
      source_config: { repo_url: `${github.origin}/acme/bot`, integration_id: integration.id, build_on_push },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  await settled(id, ([newest]) => newest?.status === "DEPLOYED");
  if (build_on_push) await watched(id, (watch) => watch !== undefined);
  return id;
}

const revisionsOf = async (id: string) => {
  const found: Revision[] = [];
  for (let offset = 0; ; offset += 100) {
    const { resources } = await t.client.listRevisions({ deployment_id: id, limit: 100, offset });
    found.push(...resources);
    if (resources.length < 100) return found;
  }
};
const settled = (id: string, holds: (revisions: Revision[]) => boolean) =>
  eventually(() => revisionsOf(id), holds, { timeoutMs: 300_000 });

interface Watch {
  commit_sha: string | null;
  message_count: number;
  polled_at: Date;
  due_in_s: number;
  last_error: string | null;
}

const watched = (id: string, holds: (watch: Watch | undefined) => boolean) =>
  eventually(
    async () => {
      const { rows } = await t.server.db.query<Watch>(sql`
        select commit_sha, told as message_count, looked_at as polled_at, extract(epoch from look_at - now())::float8 as due_in_s, last_error
          from branch_watches where deployment_id = ${id}`);
      return rows[0];
    },
    holds,
    { timeoutMs: 300_000 },
  );

/** Makes the polls of this deployment due this much earlier. */
async function passTime(id: string, seconds: number): Promise<void> {
  const { db } = t.server;
  await db.query(
    sql`update branch_watches set look_at = look_at - ${seconds} * interval '1 second' where deployment_id = ${id}`,
  );
  await db.query(
    sql`update reconcile_queue set run_at = run_at - ${seconds} * interval '1 second' where deployment_id = ${id}`,
  );
}

const remove = (id: string) => t.client.deleteDeployment({ deployment_id: id });
const shaOf = ({ source_revision_config }: Revision) => source_revision_config.repo_commit_sha;

test("deploys a push to the followed branch and ignores pushes to other branches", async () => {
  const id = await create();
  const commit = await repository.commit(nodeAgent("two"));
  const held = Promise.withResolvers<void>();
  github.state.gitHeld = held.promise;
  await tell(commit);
  // The server answered the message while git was blocked, because the poll runs afterwards.
  github.state.gitHeld = null;
  held.resolve();
  const [newest] = await settled(id, ([one]) => one?.status === "DEPLOYED" && shaOf(one) === commit);
  assert.equal(newest?.triggered_by, "push");
  const { url } = await t.client.getDeployment({ deployment_id: id });
  assert.equal(((await (await fetch(`${url}/`)).json()) as { version: string }).version, "two");
  const before = await watched(id, () => true);
  await tell("f".repeat(40), "elsewhere");
  await tell("e".repeat(40));
  await watched(id, (watch) => watch !== undefined && watch.polled_at > (before?.polled_at as Date));
  assert.equal((await revisionsOf(id)).length, 2, "a message about a commit that is not on the branch builds nothing");
  await remove(id);
});

test("deploys only the newest of 100 pushes in a second and marks the other revisions SKIPPED", async (context) => {
  const id = await create();
  const commits: string[] = [];
  for (let at = 0; at < 100; at += 1) commits.push(await repository.commit(nodeAgent(`push-${at}`)));
  const began = performance.now();
  await Promise.all(commits.map((commit) => tell(commit)));
  context.diagnostic(`100 messages at once were answered within ${Math.round(performance.now() - began)} ms`);
  const last = commits.at(-1) as string;
  await settled(id, ([newest]) => newest?.status === "DEPLOYED" && shaOf(newest) === last);
  await watched(id, (watch) => watch !== undefined && watch.due_in_s > 0);
  const revisions = await settled(id, (all) => all.every(({ status }) => /DEPLOYED|SKIPPED/.test(status)));
  const pushed = revisions.filter(({ triggered_by }) => triggered_by === "push");
  const deployed = pushed.filter(({ status }) => status === "DEPLOYED").map(shaOf);
  assert.deepEqual(deployed, [last], "all commits existed before the first poll");
  assert.ok(new Set(pushed.map(shaOf)).size === pushed.length, "a commit has two revisions");
  await remove(id);
});

test("finds a push that it missed while it was down by polling within five minutes", async () => {
  const id = await create();
  await watched(id, (watch) => watch !== undefined && watch.due_in_s > 0 && watch.due_in_s <= 300);
  let commit = "";
  await t.server.close();
  commit = await repository.commit(nodeAgent("missed"));
  await t.restart();
  const watch = await watched(id, (one) => one !== undefined && one.due_in_s > 0);
  assert.ok((watch?.due_in_s ?? 0) <= 300);
  assert.equal((await revisionsOf(id)).length, 1, "no message announced the push");
  await passTime(id, 300);
  await settled(id, ([newest]) => newest?.status === "DEPLOYED" && shaOf(newest) === commit);
  await remove(id);
});

test("builds only pushes that change included files", async () => {
  const id = await create();
  await t.client.patchGitSettings({
    deployment_id: id,
    body: { include_paths: ["server.js", "agents/**"], exclude_paths: ["*.md"] },
  });
  const quiet = await repository.commit({ "docs/guide.txt": randomUUID(), "agents/readme.md": randomUUID() });
  await tell(quiet);
  await watched(id, (watch) => watch?.commit_sha === quiet);
  assert.equal((await revisionsOf(id)).length, 1);
  const loud = await repository.commit({ "agents/deep/prompt.txt": randomUUID() });
  await tell(loud);
  await settled(id, ([newest]) => newest?.status === "DEPLOYED" && shaOf(newest) === loud);
  await remove(id);
});

test("builds nothing when a deployment begins to follow a branch or another one, until the branch moves", async () => {
  const id = await create(false);
  await run("git", ["-C", repository.directory, "branch", "-f", "release"]);
  await repository.commit({ "note.txt": randomUUID() });
  await t.client.patchDeployment({ deployment_id: id, body: { source_config: { build_on_push: true } } });
  await watched(id, (watch) => watch !== undefined);
  await t.client.patchDeployment({ deployment_id: id, body: { tracked_repo_ref: "release" } });
  await passTime(id, 300);
  const release = (await run("git", ["-C", repository.directory, "rev-parse", "release"])).stdout.trim();
  await watched(id, (watch) => watch?.commit_sha === release);
  assert.equal((await revisionsOf(id)).length, 1);
  await run("git", ["-C", repository.directory, "branch", "-f", "release", "main"]);
  const moved = (await run("git", ["-C", repository.directory, "rev-parse", "release"])).stdout.trim();
  await tell(moved, "release");
  await settled(id, ([newest]) => newest?.status === "DEPLOYED" && shaOf(newest) === moved);
  await run("git", ["-C", repository.directory, "branch", "-D", "release"]);
  await passTime(id, 300);
  await watched(id, (watch) => watch?.commit_sha === null && /There is no branch/.test(watch.last_error ?? ""));
  await t.client.patchDeployment({ deployment_id: id, body: { source_config: { build_on_push: false } } });
  await watched(id, (watch) => watch === undefined);
  await remove(id);
});

test("keeps a rollback, because a poll compares the branch with its last seen commit", async () => {
  const id = await create();
  const commit = await repository.commit(nodeAgent("newer"));
  await tell(commit);
  const revisions = await settled(id, ([newest]) => newest?.status === "DEPLOYED" && shaOf(newest) === commit);
  const first = revisions.at(-1)?.id ?? "";
  await t.client.redeployRevision({ deployment_id: id, revision_id: first });
  await settled(id, ([newest, ...rest]) => rest.length === 2 && newest?.status === "DEPLOYED");
  const before = await watched(id, () => true);
  await passTime(id, 300);
  await watched(id, (watch) => watch !== undefined && watch.polled_at > (before?.polled_at as Date));
  assert.equal((await revisionsOf(id)).length, 3);
  await remove(id);
});
