import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import type { Revision } from "../../src/contract/revisions/revision.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/** Short deadlines for the revisions that hang. All others get the time that a busy machine may need. */
const hastyBuild = { PIERHEAD_BUILD_TIMEOUT_MS: "4000" };
const hastyDeploy = { PIERHEAD_DEPLOY_TIMEOUT_MS: "4000" };

const start = (argv: string[]) => JSON.stringify({ start: argv });
const build = (argv: string[]) => JSON.stringify({ build: argv, start: ["node", "server.js"] });

/** Broken revisions. Each fails with this status and message within its deadline, and the old revision keeps serving. */
const broken: {
  name: string;
  files: Record<string, string>;
  status: Revision["status"];
  message: RegExp;
  deadlines?: Record<string, string>;
}[] = [
  {
    name: "a config file that is not JSON",
    files: { "pierhead.json": "{ start: " },
    status: "BUILD_FAILED",
    message: /pierhead\.json/,
  },
  {
    name: "a config file of the wrong shape",
    files: { "pierhead.json": JSON.stringify({ start: "node server.js" }) },
    status: "BUILD_FAILED",
    message: /start/,
  },
  {
    name: "a build that fails",
    files: { "pierhead.json": build(["node", "-e", "console.error('no such module'); process.exit(7)"]) },
    status: "BUILD_FAILED",
    message: /7[\s\S]*no such module|no such module[\s\S]*7/,
  },
  {
    name: "a program that does not exist",
    files: { "pierhead.json": start(["no-such-program-at-all"]) },
    status: "DEPLOY_FAILED",
    message: /no-such-program-at-all/,
  },
  {
    name: "a server that exits immediately",
    files: { "server.js": "console.error('cannot read settings'); process.exit(0)" },
    status: "DEPLOY_FAILED",
    message: /cannot read settings/,
  },
  {
    name: "a build that hangs",
    files: { "pierhead.json": build(["node", "-e", "setInterval(() => {}, 1000)"]) },
    status: "BUILD_FAILED",
    message: /4 s|deadline|time/i,
    deadlines: hastyBuild,
  },
  {
    name: "a server that never becomes healthy",
    files: {
      "server.js": "require('http').createServer((q, a) => { a.statusCode = 500; a.end() }).listen(process.env.PORT)",
    },
    status: "DEPLOY_FAILED",
    message: /\/ok/,
    deadlines: hastyDeploy,
  },
  {
    name: "a server that opens only a port for its metrics",
    files: { "server.js": "require('http').createServer((q, a) => a.end('# HELP up Whether it is up.\\n')).listen(0)" },
    status: "DEPLOY_FAILED",
    message: /PORT|\/ok/,
    deadlines: hastyDeploy,
  },
];

test("reports why a broken revision fails while the old one keeps serving", async (context) => {
  await using pierhead = await startTestServer();
  await using repository = await createAgentRepository();
  let { ids, url, client } = { ...(await deploy(pierhead, repository)), client: pierhead.client };
  let deadlinesNow: Record<string, string> | undefined;
  const restart = async (deadlines?: Record<string, string>) => {
    deadlinesNow = deadlines;
    await pierhead.restart(deadlines);
    client = pierhead.client;
    url = (await client.getDeployment(ids)).url as string;
    await eventually(
      () => fetch(`${url}/version`).then(({ status }) => status),
      (status) => status === 200,
      { what: "the route of the agent" },
    );
  };

  for (const { name, files, status, message, deadlines } of broken) {
    await context.test(name, async () => {
      if (deadlines !== deadlinesNow) await restart(deadlines);
      await repository.commit({ ...nodeAgent("broken"), ...files });
      const patched = await client.patchDeployment({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
      const revision = await settled(pierhead, ids, patched.latest_revision_id);
      assert.equal(revision.status, status, revision.status_message ?? "");
      assert.match(revision.status_message ?? "", message);
      assert.equal(await versionOf(url), "one");
    });
  }

  await context.test("names the existing config files when the configured one is missing", async () => {
    await restart();
    const change = { source_revision_config: { langgraph_config_path: "agents/langgraph.json" } };
    const patched = await client.patchDeployment({ ...ids, body: change });
    const revision = await settled(pierhead, ids, patched.latest_revision_id);
    assert.equal(revision.status, "BUILD_FAILED");
    assert.match(revision.status_message ?? "", /agents\/langgraph\.json[\s\S]*pierhead\.json/);
  });

  await context.test("fails an unknown ref with CREATE_FAILED before the build", async () => {
    const body = { source_revision_config: { repo_ref: "no-such-branch", langgraph_config_path: "pierhead.json" } };
    const patched = await client.patchDeployment({ ...ids, body });
    const revision = await settled(pierhead, ids, patched.latest_revision_id);
    assert.equal(revision.status, "CREATE_FAILED");
    assert.match(revision.status_message ?? "", /no-such-branch/);
    assert.equal(await versionOf(url), "one");
  });

  await context.test("fails an unreadable repository with CREATE_FAILED", async () => {
    const gone = await createAgentRepository({ "pierhead.json": "{}" });
    await client.patchDeployment({ ...ids, body: { source_config: { repo_url: gone.url }, tracked_repo_ref: "main" } });
    await gone[Symbol.asyncDispose]();
    const revision = await client.createRevision({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
    const ended = await settled(pierhead, ids, revision.id);
    assert.equal(ended.status, "CREATE_FAILED");
    assert.ok((ended.status_message ?? "").length > 20);
  });

  await context.test("leaves only the serving replica behind", async () => {
    assert.deepEqual(await readdir(path.join(pierhead.dataDir, "builds")), []);
    await eventually(
      () => readdir(path.join(pierhead.dataDir, "replicas")),
      (left) => left.length === 1,
      { what: "one replica" },
    );
  });
});

test("interrupting a build kills all processes that it started", async () => {
  await using pierhead = await startTestServer();
  await using repository = await createAgentRepository();
  const { ids, url } = await deploy(pierhead, repository);
  const { client } = pierhead;
  // The build starts a process that leaves its process group, as daemons do.
  const script =
    "require('child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' }).unref(); setInterval(() => {}, 1000)";
  await repository.commit({ "pierhead.json": build(["node", "-e", script]) });
  const patched = await client.patchDeployment({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
  const revisionId = patched.latest_revision_id as string;
  const marked = () => processesWith(`PIERHEAD_BUILD_ID=${revisionId}.`);
  await eventually(marked, (found) => found.length >= 2, { what: "the build's processes" });
  await client.interruptRevision({ ...ids, revision_id: revisionId });
  await eventually(marked, (found) => found.length === 0, { what: "no process of the build" });
  assert.equal((await settled(pierhead, ids, revisionId)).status, "INTERRUPTED");
  assert.equal(await versionOf(url), "one");
  assert.equal(
    (await client.interruptRevision({ ...ids, revision_id: revisionId })) ?? null,
    null,
    "a repeated interrupt must succeed",
  );
});

test("10 MB of log in a second stops neither the agent nor its log and does not fill the disk", async () => {
  await using pierhead = await startTestServer();
  const noisy = nodeAgent("noisy")["server.js"]?.replace(
    'if (url.pathname === "/exit")',
    'if (url.pathname === "/noise") { for (let i = 0; i < 100000; i++) console.log("x".repeat(100) + i); return response.end("done"); }\n  if (url.pathname === "/say") { console.log("said " + url.search.slice(1)); return response.end(); }\n  if (url.pathname === "/exit")',
  );
  await using repository = await createAgentRepository({ ...nodeAgent("noisy"), "server.js": noisy ?? "" });
  const { ids, url } = await deploy(pierhead, repository);
  await fetch(`${url}/noise`).then((answer) => answer.text());
  assert.equal(await versionOf(url), "noisy");
  const find = async (filter: { query?: string }) =>
    (await pierhead.client.getDeploymentLogs({ ...ids, type: "deploy", order: "desc", limit: 5, ...filter })).logs;
  // Lines after the flood must appear, whatever was dropped of the flood itself. The test reads only the newest lines, because
  // repeated searches of all lines would keep the database from storing more.
  let count = 0;
  const seen = async () => {
    count += 1;
    await fetch(`${url}/say?mark-${count}`).then((answer) => answer.text());
    return find({});
  };
  const isMark = ({ message }: { message: string }) => message.startsWith("said mark-");
  await eventually(seen, (lines) => lines.some(isMark), { what: "a line after the flood", timeoutMs: 300_000 });
  // A message must report dropped lines. If the machine is slow enough for the log to keep up, none are dropped.
  const { rows } = await pierhead.server.db.query<{ kept: number }>(sql`
    select count(*) as kept from log_entries where deployment_id = ${ids.deployment_id} and message like 'xxx%'`);
  assert.ok(
    (await find({ query: "dropped" })).length > 0 || rows[0]?.kept === 100_000,
    `${rows[0]?.kept} lines were kept`,
  );
  const files = await readdir(path.join(pierhead.dataDir, "replicas"), { recursive: true });
  assert.ok(files.length < 50);
});

test("restarts an agent that crashes, and its clients wait instead of failing", async () => {
  await using pierhead = await startTestServer();
  await using repository = await createAgentRepository();
  const { url, ids } = await deploy(pierhead, repository);
  await fetch(`${url}/exit`).catch(() => undefined);
  assert.equal(await versionOf(url), "one");
  const again = await pierhead.client.getDeployment(ids);
  assert.equal(again.status, "READY");
});

async function deploy(pierhead: TestServer, repository: AgentRepository) {
  const made = await pierhead.client.createDeployment({
    body: {
      name: "agent",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const ids = { deployment_id: made.id };
  const revision = await settled(pierhead, ids, made.latest_revision_id);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const { url } = await pierhead.client.getDeployment(ids);
  return { ids, url: url as string };
}

function settled(pierhead: TestServer, ids: { deployment_id: string }, revisionId: string | null): Promise<Revision> {
  assert.ok(revisionId);
  return pierhead.client.waitForRevision({ ...ids, revision_id: revisionId }, { timeoutMs: 120_000 });
}

async function versionOf(url: string): Promise<string> {
  const response = await fetch(`${url}/version`);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text).version;
}

/** Returns the processes with an environment entry that begins with `start`: pids, or lines of `ps` where there is no /proc. */
async function processesWith(start: string): Promise<string[]> {
  const pids = await readdir("/proc").catch(() => null);
  if (pids === null) {
    const { stdout } = await promisify(execFile)("ps", ["-axEo", "pid,command"]);
    return stdout.split("\n").filter((line) => line.includes(start));
  }
  const found: string[] = [];
  for (const pid of pids.filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    if (`\0${environment}`.includes(`\0${start}`)) found.push(pid);
  }
  return found;
}
