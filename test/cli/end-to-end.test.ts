import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../src/contract/revisions/revision.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { templateDirectory } from "../support/database-template.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { createDirectory, type RunOptions, runCli } from "./run-cli.ts";

const run = promisify(execFile);

/** A whole server for the command line. Only the replicas are simulated. */
let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "simulated", PIERHEAD_BUILD_CONCURRENCY: "4" });
});
after(() => server[Symbol.asyncDispose]());

const cli = (argv: string[], options: RunOptions = {}) =>
  runCli([...argv, "--data-dir", server.dataDir], { ...options });

interface Followed {
  deployment: Deployment;
  revision: Revision;
  elapsed_ms: number;
  error?: { exit_code: number; because: string };
}
const followed = async (argv: string[]) => JSON.parse((await cli([...argv, "--json"])).stdout) as Followed;

const failing = {
  "pierhead.json": JSON.stringify({
    build: [["node", "-e", "console.error('no compiler here'); process.exit(3)"]],
    start: ["node", "server.js"],
  }),
};
const slow = {
  "pierhead.json": JSON.stringify({
    build: [["node", "-e", "setTimeout(() => {}, 600000)"]],
    start: ["node", "server.js"],
  }),
};

test("deploys a directory, prints only the address to stdout, and builds nothing the second time", async () => {
  await using source = await createDirectory({
    ...nodeAgent("one"),
    "package.json": '{"name": "directory-agent"}',
    ".env": "TOKEN=1",
  });

  const first = await cli(["deploy", source.directory]);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /^http:\/\/127\.0\.0\.1:\d+\/d\/directory-agent-[0-9a-f]+\n$/);
  assert.match(first.stderr, /✓ Pack .*3 files/);
  assert.match(first.stderr, /\.env has 1 variable that this deploy does not send/);
  assert.match(first.stderr, /Deployed directory-agent in/);

  const again = await followed(["deploy", source.directory, "--env-from", path.join(source.directory, ".env")]);
  assert.equal(again.revision.status, "DEPLOYED");
  assert.deepEqual(again.deployment.secrets, [{ name: "TOKEN", value: "**********" }]);
  const log = await cli(["logs", "directory-agent", "--build"]);
  assert.match(log.stdout, /built before: reusing its artifact/);
  const builder = /^Revision 1 built it: pierhead (logs directory-agent --build --revision [0-9a-f]{8})$/m.exec(
    log.stderr,
  );
  assert.match((await cli((builder?.[1] ?? "").split(" "))).stdout, /Start: /, log.stderr);
  for (const _ of ["first", "second"]) await followed(["deploy", source.directory, "--name", "same-source"]);
  const { stderr: origin } = await cli(["logs", "same-source", "--build"]);
  assert.equal(origin, "Another deployment built it before revision 1, the first one here that uses it.\n");

  const status = await cli(["status", "directory-agent"]);
  assert.match(status.stdout, /active +DEPLOYED/);
  assert.match((await cli(["list"])).stdout, /directory-agent .* live .* directory {2}/);
  assert.match(
    (await cli(["why", "directory-agent"])).stdout,
    /Next step of the server\n {2}None: desired and observed state agree/,
  );
  assert.equal((await cli(["open", "directory-agent"])).stdout, first.stdout);
});

test("ends a failed build with code 1, its last log lines, and the command for the full log", async () => {
  await using source = await createDirectory(failing);
  const { code, stderr, stdout } = await cli(["deploy", source.directory, "--name", "failing"]);
  assert.equal(code, 1);
  assert.equal(stdout, "");
  assert.match(stderr, /ended in BUILD_FAILED/);
  assert.match(stderr, /exit code 3/);
  assert.match(stderr, /no compiler here/);
  assert.match(stderr, /pierhead logs failing --build --revision [0-9a-f]{8}/);
  const { error, revision } = await followed(["deploy", source.directory, "--name", "failing"]);
  assert.equal(error?.exit_code, 1);
  assert.match(error?.because ?? "", /no compiler here/);
  assert.equal(revision.status, "BUILD_FAILED");
});

test("deploys a repository from its default branch and from a commit, and rolls back", async () => {
  await using repository = await createAgentRepository(nodeAgent("one"));
  const deploy = ["deploy", repository.url, "--name", "from-git", "--config", "pierhead.json"];
  const first = await followed(deploy);
  assert.equal(first.revision.source_revision_config.repo_ref, "main");
  const firstCommit = first.revision.source_revision_config.repo_commit_sha;
  const commit = await repository.commit(nodeAgent("two"));
  const second = await followed([...deploy, "--ref", commit]);
  assert.equal(second.revision.source_revision_config.repo_commit_sha, commit);

  const back = await cli(["rollback", "from-git"]);
  assert.equal(back.code, 0, back.stderr);
  assert.match(back.stderr, /repo_commit_sha: [0-9a-f]{40} -> [0-9a-f]{40}/);
  assert.match(back.stderr, /Variables stay the same/);
  const { revisions } = JSON.parse((await cli(["status", "from-git", "--json"])).stdout) as { revisions: Revision[] };
  assert.equal(revisions.length, 3);
  assert.equal(revisions[0]?.source_revision_config.repo_commit_sha, firstCommit);
  assert.equal(revisions[0]?.triggered_by, "redeploy");

  const named = await followed(["redeploy", "from-git", second.revision.id.slice(0, 8)]);
  assert.equal(named.revision.source_revision_config.repo_commit_sha, commit);
  const other = await cli(["deploy", repository.directory, "--name", "from-git"]);
  assert.equal(other.code, 0, "a directory may replace a repository");
});

test("repairs a deployment whose only revision failed: another directory, then the newest commit", async () => {
  await using repository = await createAgentRepository({
    "agents/pierhead.json": nodeAgent("one")["pierhead.json"] ?? "",
  });
  const broken = await followed(["deploy", repository.url, "--name", "repaired", "--config", "pierhead.json"]);
  assert.match(broken.revision.status, /_FAILED$/);
  assert.equal((await cli(["retry", "repaired"])).code, 1, "the cause is still there");
  const moved = await followed(["change", "repaired", "--root", "agents"]);
  assert.equal(moved.revision.status, "DEPLOYED");
  assert.equal(moved.revision.source_revision_config.langgraph_config_path, "agents/pierhead.json");
  const commit = await repository.commit({ "agents/server.js": "" });
  const latest = await followed(["deploy", "--latest", "repaired"]);
  assert.deepEqual([latest.revision.reason, latest.revision.number], ["latest", 4]);
  assert.equal(latest.revision.source_revision_config.repo_commit_sha, commit);
  const status = await cli(["status", "repaired"]);
  assert.match(status.stdout, /4 +[0-9a-f]{8} +active +DEPLOYED +latest commit/);
});

test("deploys a template by id and lists the templates for an unknown word", async () => {
  const { deployment, revision } = await followed(["deploy", "node-server", "--name", "from-template"]);
  assert.equal(deployment.source_config.template_id, "node-server");
  assert.equal(revision.status, "DEPLOYED");
  const again = await followed(["deploy", "--template", "node-server", "--name", "from-template"]);
  assert.notEqual(again.revision.id, revision.id);
  const { code, stderr } = await cli(["deploy", "no-such-thing"]);
  assert.equal(code, 1);
  assert.match(stderr, /neither a directory nor a template/);
  assert.match(stderr, /node-server/);
});

test("rejects or reports options without effect", async () => {
  await using source = await createDirectory(nodeAgent("one"));
  const both = await cli(["deploy", source.directory, "--template", "node-server", "--name", "undecided"]);
  assert.equal(both.code, 2);
  assert.match(both.stderr, /or the template node-server, not both/);
  for (const setting of [
    ["--ref", "main"],
    ["--config", "a/langgraph.json"],
    ["--build-command", "make"],
  ]) {
    const { code, stderr } = await cli(["deploy", "node-server", "--name", "undecided", ...setting]);
    assert.equal(code, 2, stderr);
    assert.match(stderr, new RegExp(`${setting[0]} belongs to a directory or a git URL`));
  }
  assert.equal((await cli(["status", "undecided"])).code, 1);

  await followed(["deploy", "node-server", "--name", "typed", "--type", "dev"]);
  const retyped = await cli(["deploy", "node-server", "--name", "typed", "--type", "prod"]);
  assert.match(retyped.stderr, /--type prod is ignored: typed stays dev/);
});

test("explains how to continue after a timeout, --no-wait and Ctrl-C, and cancels the build", async () => {
  await using source = await createDirectory(slow);
  const deploy = ["deploy", source.directory, "--name", "slow"];
  const late = await cli([...deploy, "--timeout", "100ms"]);
  assert.equal(late.code, 8, late.stderr);
  assert.match(late.stderr, /pierhead status slow --watch/);
  assert.equal((await cli([...deploy, "--no-wait"])).code, 8);

  const interrupt = new AbortController();
  const stopAtBuild = (text: string) => {
    if (/Upload/.test(text)) setTimeout(() => interrupt.abort(), 500);
  };
  const stopped = await cli(deploy, { signal: interrupt.signal, onStderr: stopAtBuild });
  assert.equal(stopped.code, 2, stopped.stderr);
  assert.match(stopped.stderr, /goes on in the server/);

  const watching = cli(["status", "slow", "--watch"]);
  const cancelled = await cli(["cancel", "slow", "--json"]);
  assert.equal((JSON.parse(cancelled.stdout) as { interrupted: string[] }).interrupted.length >= 1, true);
  assert.equal((await watching).code, 2);
  assert.match((await cli(["cancel", "slow"])).stderr, /No revision of slow is in progress/);
});

test("sets, imports and removes variables and follows the revision of each change", async () => {
  await followed(["deploy", "node-server", "--name", "variables"]);
  const set = await cli(["env", "set", "variables", "TOKEN"], { stdin: "hunter2\n" });
  assert.equal(set.code, 0, set.stderr);
  await using files = await createDirectory({ "more.env": "A=1\nB='two words'\nLANGSMITH_PROJECT=reserved\nEMPTY=\n" });
  const imported = await cli(["env", "import", "variables", "more.env"], { cwd: files.directory });
  assert.equal(imported.code, 0, imported.stderr);
  assert.match(imported.stderr, /LANGSMITH_PROJECT/);
  assert.doesNotMatch(imported.stderr + imported.stdout + set.stderr + set.stdout, /hunter2|two words/);
  const values = async () =>
    (await cli(["env", "list", "variables", "--reveal"])).stdout.split("\n").filter((line) => line !== "");
  assert.deepEqual(await values(), ["A      1", "B      two words", "TOKEN  hunter2"]);
  assert.equal((await cli(["env", "unset", "variables", "A", "B"])).code, 0);
  assert.deepEqual(await values(), ["TOKEN  hunter2"]);
  assert.equal((await cli(["env", "unset", "variables", "TOKEN"])).code, 0);
  assert.deepEqual(await values(), []);
});

test("shares a group of variables, names the deployments without its values, and deploys them", async () => {
  await followed(["deploy", "node-server", "--name", "grouped"]);
  const made = await cli(["groups", "set", "keys", "MODEL_KEY"], { stdin: "hunter2\n" });
  assert.equal(made.code, 0, made.stderr);
  assert.match((await cli(["groups", "use", "grouped", "keys"])).stderr, /Deploying grouped with these variables/);
  const changed = await cli(["groups", "set", "keys", "MODEL_KEY"], { stdin: "hunter3\n" });
  assert.match(changed.stderr, /1 deployment gets these variables with the next revision/);
  assert.match((await cli(["groups", "list"])).stdout, /keys +MODEL_KEY +grouped \(not deployed\)/);
  assert.match((await cli(["groups", "deploy", "keys"])).stderr, /Deploying grouped/);
  const shown = await cli(["groups", "show", "keys"]);
  assert.match(shown.stderr, /Used by grouped\./);
  assert.doesNotMatch(made.stdout + changed.stdout + shown.stdout, /hunter/);
  const refused = await cli(["groups", "delete", "keys"]);
  assert.deepEqual([refused.code, /Remove it from them first/.test(refused.stderr)], [1, true]);
});

test("scales to a number or a range, shows it in ps, and says why a deployment cannot be scaled", async () => {
  await cli(["deploy", "--template", "node-server", "--name", "scaled"]);
  const scaled = await cli(["scale", "scaled", "3"]);
  assert.equal(scaled.code, 0, scaled.stderr);
  const shown = await cli(["ps", "scaled"]);
  assert.equal(shown.stdout.match(/ ready /g)?.length, 3, shown.stdout);
  assert.match(shown.stdout, /Scale: 3 replicas\n/);
  assert.equal((await cli(["scale", "scaled", "1-2"])).code, 0);
  assert.match((await cli(["ps", "scaled"])).stdout, /Scale: 1 to 2 replicas, by load/);
  assert.match((await cli(["scale", "scaled", "1-2"])).stderr, /already has this scale: 1-2 replicas/);
  assert.match((await cli(["scale", "scaled", "0"])).stderr, /"0" is not a number of replicas\.[\s\S]*from 1 to 100/);

  await cli(["deploy", "--template", "node-server", "--name", "small", "--type", "dev"]);
  const refused = await cli(["scale", "small", "2"]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /'small' is of type 'dev', which runs one replica/);
});

test("keeps all variables that are changed concurrently", async () => {
  await followed(["deploy", "node-server", "--name", "shared"]);
  await using files = await createDirectory({ "more.env": "IMPORTED=1\n" });
  const names = ["A", "B", "C", "D"];
  const changes = await Promise.all([
    ...names.map((name) => cli(["env", "set", "shared", name, "--no-wait"], { stdin: "1" })),
    cli(["env", "import", "shared", "more.env", "--no-wait"], { cwd: files.directory }),
    cli(["deploy", "node-server", "--name", "shared", "--env-from", "more.env", "--no-wait"], { cwd: files.directory }),
  ]);
  for (const { code, stderr } of changes) {
    // A revision that waits in the queue is superseded by that of the next change, sometimes before its command has seen it.
    assert.ok(code === 8 || (code === 2 && /was skipped/.test(stderr)), stderr);
  }
  const { stdout } = await cli(["env", "list", "shared", "--json"]);
  const { variables } = JSON.parse(stdout) as { variables: { name: string }[] };
  assert.deepEqual(
    variables.map(({ name }) => name),
    [...names, "IMPORTED"],
  );
});

test("reads and follows replica logs until Ctrl-C and rejects an unknown level", async () => {
  await followed(["deploy", "node-server", "--name", "logging"]);
  assert.equal((await cli(["logs", "logging", "--json"])).code, 0);
  const interrupt = new AbortController();
  // The server has answered the first request for lines, so the command now follows them.
  const stopAtLines = (text: string) => {
    if (/\/logs\b/.test(text)) interrupt.abort();
  };
  const following = await cli(["logs", "logging", "-f", "--verbose"], {
    signal: interrupt.signal,
    onStderr: stopAtLines,
  });
  assert.equal(following.code, 0, following.stderr);
  assert.equal((await cli(["logs", "logging", "--level", "LOUD"])).code, 2);
  const build = await cli(["logs", "logging", "--build", "-f", "--json"]);
  assert.equal(build.code, 0, "a finished build ends its stream");
  assert.equal((await cli(["logs", "logging", "--build", "-f", "-n", "0"])).stdout, "");
  assert.equal((await cli(["logs", "logging", "--build", "-n", "0"])).stderr, "");
  assert.match((await cli(["logs", "logging", "--build", "--search", "nowhere"])).stderr, /No lines match the filters/);
});

test("deletes a deployment and frees its name", async () => {
  await followed(["deploy", "node-server", "--name", "doomed"]);
  const { code, stdout, stderr } = await cli(["delete", "doomed", "--yes", "--json"]);
  assert.equal(code, 0, stderr);
  assert.equal((JSON.parse(stdout) as { deleted: boolean }).deleted, true);
  assert.equal((await cli(["status", "doomed"])).code, 1);
});

test("deletes several deployments with one command, or none if a name is unknown", async () => {
  for (const name of ["bulk-1", "bulk-2"]) await followed(["deploy", "node-server", "--name", name]);
  assert.equal((await cli(["delete", "bulk-1", "no-such-one", "--yes"])).code, 1);
  assert.equal((await cli(["status", "bulk-1"])).code, 0);
  const { code, stdout, stderr } = await cli(["delete", "bulk-1", "bulk-2", "bulk-1", "--yes", "--json"]);
  assert.equal(code, 0, stderr);
  const { deployments } = JSON.parse(stdout) as { deployments: { deleted: boolean }[] };
  assert.deepEqual(
    deployments.map(({ deleted }) => deleted),
    [true, true],
  );
  assert.equal((await cli(["status", "bulk-2"])).code, 1);
});

test("doctor passes for a running server and fails with code 4 for a wrong key", async () => {
  const healthy = await cli(["doctor"]);
  assert.equal(healthy.code, 0, healthy.stdout);
  const { code, stderr } = await cli(["list"], { env: { PIERHEAD_API_KEY: "not-a-key" } });
  assert.equal(code, 4);
  assert.match(stderr, /Request id/);
});

test("runs the program itself: up is ready, serves other commands and stops on Ctrl-C", async () => {
  await using data = await createDirectory();
  const { PIERHEAD_API_KEY: _, PIERHEAD_URL: __, ...inherited } = process.env;
  const env = { ...inherited, PIERHEAD_DATABASE_TEMPLATE_DIR: await templateDirectory() };
  const start = (...args: string[]) => {
    const child = spawn(process.execPath, ["src/main.ts", ...args, "--data-dir", data.directory], { env });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) child[name].on("data", (chunk) => (said[name] += String(chunk)));
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    return { child, said, ended };
  };
  const up = start("up", "--port", "0", "--compute", "simulated", "--json");
  try {
    await Promise.race([new Promise((resolve) => up.child.stdout.once("data", resolve)), up.ended]);
    const { url, workspace_id: workspaceId } = JSON.parse(up.said.stdout) as { url: string; workspace_id: string };
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.match(workspaceId, /^[0-9a-f-]{36}$/);
    if (process.platform === "linux") {
      const environment = await readFile(`/proc/${up.child.pid}/environ`, "latin1");
      assert.match(environment, /(^|\0)MALLOC_TRIM_THRESHOLD_=\d+\0/, "the allocator returns freed memory");
      assert.match(environment, /(^|\0)MALLOC_ARENA_MAX=1\0/, "all threads share one arena");
      assert.match(await readFile(`/proc/${up.child.pid}/cmdline`, "latin1"), /\0--max-semi-space-size=\d+\0/);
    }
    const list = start("list", "--json");
    assert.equal(await list.ended, 0, list.said.stderr);
    assert.deepEqual(JSON.parse(list.said.stdout), { deployments: [], has_more: false });
    const version = start("version");
    assert.equal(await version.ended, 0);
    assert.match(version.said.stdout, /server {3}0\.\d+\.\d+ at http/);
  } finally {
    up.child.kill("SIGINT");
  }
  assert.equal(await up.ended, 0, up.said.stderr);
  assert.match(up.said.stderr, /Stopped\./);
  assert.doesNotMatch(up.said.stderr, /warning/i);
});

test("caches compiled code below the cache directory of the user and runs without a home directory", async () => {
  await using home = await createDirectory();
  const help = (env: NodeJS.ProcessEnv) => run(process.execPath, ["src/main.ts", "--help"], { env });
  assert.match((await help({ HOME: home.directory })).stdout, /Usage: pierhead/);
  assert.equal((await readdir(path.join(home.directory, ".cache/pierhead/compiled"))).length, 1);
  assert.match((await help({ TMPDIR: home.directory })).stdout, /Usage: pierhead/);
  assert.deepEqual(await readdir(home.directory), [".cache"]);
  // A process cannot create a directory below /proc.
  const killed = AbortSignal.timeout(60_000);
  const nowhere = run(process.execPath, ["src/main.ts", "--help"], { env: { HOME: "/proc" }, signal: killed });
  assert.match((await nowhere).stdout, /Usage: pierhead/);
});
