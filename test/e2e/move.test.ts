import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { databaseNameOf } from "../../src/provision/database-server.ts";
import { createDirectory, type Ran, runCli } from "../cli/run-cli.ts";
import { type AgentRepository, createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { postgresSkipped } from "../support/postgres-server.ts";
import { type Region, startRegion } from "../support/region.ts";

/** Keeps notes in its PostgreSQL. Where REGION is `broken` it starts only without notes. */
const notesAgent = {
  "pierhead.json": JSON.stringify({ start: ["node", "server.js"], health: "/ok" }),
  "server.js": `
const http = require("node:http");
const { Pool } = require(${JSON.stringify(path.resolve("node_modules/pg"))});
const pool = new Pool({ connectionString: process.env.DATABASE_URI });
pool.on("error", () => {});
const answer = async (request, response) => {
  if (request.url === "/ok") return response.end("{}");
  if (request.url === "/env") return response.end(JSON.stringify(process.env));
  if (request.method === "POST") await pool.query("insert into notes values ($1)", [Number(request.url.slice(1))]);
  const { rows } = await pool.query("select id from notes order by id");
  response.end(JSON.stringify(rows.map(({ id }) => id)));
};
const server = http.createServer((request, response) => {
  answer(request, response).catch((error) => { response.statusCode = 500; response.end(error.message); });
});
const start = async () => {
  const { rows: [{ found }] } = await pool.query("select to_regclass('notes') as found");
  if (found === null) await pool.query("create table notes (id int)");
  const { rows: [{ count }] } = await pool.query("select count(*)::int from notes");
  if (process.env.REGION === "broken" && count > 0) throw new Error("no notes in this region");
  server.listen(process.env.PORT, "127.0.0.1");
};
start().catch((error) => { console.error(error.message); process.exit(1); });
process.on("SIGTERM", () => process.exit(0));
`,
};

let us: Region | undefined;
let eu: Region | undefined;
let repository: AgentRepository;
let at: Awaited<ReturnType<typeof createDirectory>>;
let env: Record<string, string | undefined>;
before(async () => {
  [us, eu] = await Promise.all([startRegion(), startRegion()]);
  if (us === undefined || eu === undefined) return;
  repository = await createAgentRepository(notesAgent);
  at = await createDirectory({});
  env = {
    ...{ PATH: process.env["PATH"], HOME: at.directory, PIERHEAD_CONFIG_DIR: at.directory },
    ...{ PIERHEAD_AGENT_POSTGRES_URL: us.postgres.url, PIERHEAD_TARGET_POSTGRES_URL: eu.postgres.url },
  };
  for (const [name, { server }] of Object.entries({ eu, us })) {
    const { code, stderr } = await runCli(["login", server.url, "--name", name, "--key"], {
      env,
      stdin: server.apiKey,
    });
    assert.equal(code, 0, stderr);
  }
});
after(async () => {
  await Promise.all([us?.[Symbol.asyncDispose](), eu?.[Symbol.asyncDispose]()]);
  await repository?.[Symbol.asyncDispose]();
  await at?.[Symbol.asyncDispose]();
});

const runIn = (...argv: string[]): Promise<Ran> => runCli([...argv, "--context", "us"], { env });
async function succeed(...argv: string[]): Promise<Ran> {
  const ran = await runIn(...argv);
  assert.equal(ran.code, 0, `${argv.join(" ")}\n${ran.stdout}${ran.stderr}`);
  return ran;
}

async function deploy(region: Region, name: string, groupIds: string[] = []) {
  const { client } = region.server;
  const made = await client.createDeployment({
    body: {
      ...{ name, source: "github", secrets: [{ name: "TOKEN", value: "hunter2" }], variable_group_ids: groupIds },
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: true },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const { status, status_message: message } = await client.waitForRevision(ids);
  assert.equal(status, "DEPLOYED", message ?? "");
  return client.getDeployment(ids);
}

async function find({ server }: Region, name: string) {
  const [deployment] = (await server.client.listDeployments({ name })).resources;
  return deployment;
}

async function connect({ postgres }: Region, deploymentId: string): Promise<pg.Client> {
  const url = new URL(postgres.url);
  url.pathname = databaseNameOf(deploymentId);
  const connection = new pg.Client({ connectionString: url.href });
  await connection.connect();
  return connection;
}

/** Runs a statement as the operator. */
async function inDatabase(region: Region, deploymentId: string, statement: string): Promise<void> {
  const connection = await connect(region, deploymentId);
  await connection.query(`begin read write; ${statement}; commit`).finally(() => connection.end());
}

/** Locks the notes of a target, and waits until the restore of a move waits for them. */
async function lockNotes(region: Region, deploymentId: string): Promise<{ release(): Promise<void> }> {
  // A transaction sees the activity of other sessions as it was at its first look, so another connection watches.
  const [locker, watcher] = [await connect(region, deploymentId), await connect(region, deploymentId)];
  await locker.query("begin; lock table notes in access exclusive mode");
  const waits =
    "select count(*)::int as count from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'pierhead backup'";
  await eventually(
    async () => (await watcher.query(waits)).rows[0].count as number,
    (count) => count > 0,
    { timeoutMs: 60_000 },
  );
  return { release: async () => void (await Promise.all([locker.end(), watcher.end()])) };
}

/** Starts a move to eu as a program of its own. */
const startMove = (name: string) =>
  spawn(process.execPath, ["src/main.ts", "move", name, "--to-context", "eu", "--yes", "--context", "us"], {
    env: env as NodeJS.ProcessEnv,
    stdio: "ignore",
  });

/** Waits until a move has deployed its target in eu. @returns the id of the target */
async function movedId(name: string): Promise<string> {
  const target = await eventually(
    () => find(eu as Region, name),
    (found) => found?.active_revision_id != null,
    { timeoutMs: 60_000, what: `the target of ${name}` },
  );
  return target?.id as string;
}

const write = async (url: string | null, id: number) => (await fetch(`${url}/${id}`, { method: "POST" })).status;
const read = async (url: string | null) => (await fetch(`${url}/notes`)).json() as Promise<number[]>;

test("moves to another control plane: notes written before are read after, refused ones are not lost silently", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  const old = await deploy(us, "support");
  const accepted: number[] = [];
  let refused = 0;
  let isWriting = true;
  const writing = (async () => {
    for (let id = 1; isWriting; id += 1) {
      if ((await write(old.url, id)) === 200) accepted.push(id);
      else refused += 1;
    }
  })();
  const planned = await succeed("move", "support", "--to-context", "eu", "--dry-run", "--json");
  assert.equal(JSON.parse(planned.stdout).outcome, "planned");
  assert.match(planned.stdout, /the values of TOKEN/);
  assert.equal(await find(eu, "support"), undefined);

  const moved = JSON.parse((await succeed("move", "support", "--to-context", "eu", "--yes", "--json")).stdout);
  isWriting = false;
  await writing;
  const target = await find(eu, "support");
  assert.equal(moved.to.url, target?.url);
  assert.ok(accepted.length > 0 && refused > 0, `${accepted.length} accepted, ${refused} refused`);
  const kept = await read(moved.to.url);
  const unanswered = kept.filter((id) => !accepted.includes(id));
  assert.deepEqual(kept, [...accepted, ...unanswered]);
  assert.ok(unanswered.length <= 1, "only the session that the move ended can have written without an answer");
  assert.deepEqual(moved.tables, [{ name: "public.notes", rows: kept.length }]);
  assert.deepEqual(await read(old.url), kept, "the old one still reads");
  assert.equal(await write(old.url, -1), 500);
  assert.equal(await write(moved.to.url, 0), 200);
  const variables = (await (await fetch(`${moved.to.url}/env`)).json()) as Record<string, string>;
  assert.equal(variables["TOKEN"], "hunter2");
  const { repo_branch, build_on_push } = target?.source_config ?? {};
  assert.deepEqual({ repo_branch, build_on_push }, { repo_branch: "main", build_on_push: true });

  const again = await succeed("move", "support", "--to-context", "eu", "--yes");
  assert.match(again.stderr, /pierhead move support --context us --to-context eu --finish/);
  assert.ok((await read(moved.to.url)).includes(0), "a second call does not copy over new notes");

  await succeed("move", "support", "--to-context", "eu", "--finish", "--yes");
  assert.equal(await find(us, "support"), undefined);
  assert.deepEqual(await read(moved.to.url), [0, ...kept]);
  const late = await succeed("move", "support", "--to-context", "eu", "--finish", "--yes");
  assert.match(late.stderr, /already deleted/);
});

test("takes a move back: the old one takes writes again, and the new one is gone", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  const old = await deploy(us, "returning");
  assert.equal(await write(old.url, 1), 200);
  await succeed("move", "returning", "--to-context", "eu", "--as", "there", "--yes");
  assert.equal(await write(old.url, 2), 500);
  await succeed("move", "returning", "--to-context", "eu", "--as", "there", "--back", "--yes");
  await eventually(
    () => write(old.url, 3),
    (status) => status === 200,
  );
  assert.deepEqual(await read(old.url), [1, 3]);
  assert.equal(await find(eu, "there"), undefined);

  await succeed("move", "returning", "--to-context", "eu", "--yes");
  const { client } = eu.server;
  const ids = { deployment_id: (await find(eu, "returning"))?.id as string };
  await client.deleteDeployment(ids);
  await client.waitForDeletion(ids);
  const back = await succeed("move", "returning", "--to-context", "eu", "--back", "--yes");
  assert.match(back.stderr, /does not exist at the context eu/);
  await eventually(
    () => write(old.url, 4),
    (status) => status === 200,
  );
});

test("goes on after the program was killed in the middle of the copy", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  const old = await deploy(us, "killed");
  for (const id of [1, 2, 3]) assert.equal(await write(old.url, id), 200);
  const program = startMove("killed");
  const ended = once(program, "exit");
  // The program certainly dies between backup and restore.
  const lock = await lockNotes(eu, await movedId("killed"));
  program.kill("SIGKILL");
  await ended;
  assert.equal(await write(old.url, 4), 500, "no write gets lost between the backup and the next call");
  await lock.release();

  await succeed("move", "killed", "--to-context", "eu", "--yes");
  const moved = await find(eu, "killed");
  assert.deepEqual(await read(moved?.url ?? null), [1, 2, 3]);
  assert.equal(await write(moved?.url ?? null, 5), 200);
});

test("lets the old one take writes again after Ctrl-C in the middle of the copy", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  const old = await deploy(us, "cancelled");
  assert.equal(await write(old.url, 1), 200);
  const program = startMove("cancelled");
  const lock = await lockNotes(eu, await movedId("cancelled"));
  assert.equal(await write(old.url, 2), 500);
  program.kill("SIGINT");
  await once(program, "exit");
  await eventually(
    () => write(old.url, 3),
    (status) => status === 200,
  );
  await lock.release();
  assert.deepEqual(await read(old.url), [1, 3]);
});

test("fails when a session leaves the read-only mode on purpose", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  const old = await deploy(us, "stubborn");
  const session = await connect(us, old.id);
  await session.query("set default_transaction_read_only = off");
  let isWriting = true;
  const writing = (async () => {
    while (isWriting) {
      await session.query("insert into notes values (1)");
      await sleep(20);
    }
  })();
  const { code, stderr } = await runIn("move", "stubborn", "--to-context", "eu", "--yes");
  isWriting = false;
  await writing;
  await session.end();
  assert.equal(code, 1, stderr);
  assert.match(stderr, /was written to while it was read-only|copy of the database is not complete/);
  await eventually(
    () => write(old.url, 2),
    (status) => status === 200,
  );
});

test("a move to another target neither releases nor replaces a complete one", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  const old = await deploy(us, "twice");
  assert.equal(await write(old.url, 1), 200);
  await succeed("move", "twice", "--to-context", "eu", "--yes");
  const target = await find(eu, "twice");
  assert.equal(await write(target?.url ?? null, 2), 200);

  const other = await runIn("move", "twice", "--to-context", "eu", "--as", "elsewhere", "--yes");
  assert.equal(other.code, 1, other.stderr);
  assert.match(other.stderr, /moves to another deployment/);
  assert.equal(await find(eu, "elsewhere"), undefined);
  const back = await runIn("move", "twice", "--to-context", "eu", "--as", "elsewhere", "--back", "--yes");
  assert.equal(back.code, 1, back.stderr);
  assert.match(back.stderr, /add --as twice/);
  assert.equal(await write(old.url, 3), 500);

  await inDatabase(us, old.id, `alter database ${databaseNameOf(old.id)} reset default_transaction_read_only`);
  const again = await runIn("move", "twice", "--to-context", "eu", "--yes");
  assert.equal(again.code, 1, again.stderr);
  assert.match(again.stderr, /would delete what was written to twice since/);
  assert.deepEqual(await read(target?.url ?? null), [1, 2]);
});

test("fails when the old database takes writes during the copy", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  const old = await deploy(us, "released");
  assert.equal(await write(old.url, 1), 200);
  const moving = runIn("move", "released", "--to-context", "eu", "--yes");
  const lock = await lockNotes(eu, await movedId("released"));
  await inDatabase(us, old.id, `alter database ${databaseNameOf(old.id)} reset default_transaction_read_only`);
  await lock.release();
  const { code, stderr } = await moving;
  assert.equal(code, 1, stderr);
  assert.match(stderr, /takes writes again, so the copy may lack rows/);
});

test("a target that fails on the copied data leaves the old one serving and writing, and the next call goes on", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  const groupIn = async ({ server }: Region, value: string) =>
    (await server.client.createVariableGroup({ body: { name: "region", variables: [{ name: "REGION", value }] } })).id;
  const old = await deploy(us, "fragile", [await groupIn(us, "us")]);
  assert.equal(await write(old.url, 1), 200);
  const lacking = await runIn("move", "fragile", "--to-context", "eu", "--yes");
  assert.equal(lacking.code, 1);
  assert.match(
    lacking.stderr,
    /lacks the variable group region[\s\S]*pierhead groups set region VARIABLE --context eu/,
  );

  await groupIn(eu, "broken");
  const failed = await runIn("move", "fragile", "--to-context", "eu", "--yes");
  assert.equal(failed.code, 1, failed.stderr);
  assert.match(failed.stderr, /DEPLOY_FAILED[\s\S]*pierhead why fragile --context eu/);
  assert.match(failed.stderr, /fragile takes writes again/);
  await eventually(
    () => write(old.url, 2),
    (status) => status === 200,
  );

  await runCli(["groups", "set", "region", "REGION", "--context", "eu"], { env, stdin: "eu" });
  await succeed("move", "fragile", "--to-context", "eu", "--yes");
  assert.deepEqual(await read((await find(eu, "fragile"))?.url ?? null), [1, 2]);
});

test("refuses what it cannot move, and says what to do", async (context) => {
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  await deploy(us, "refused");
  await deploy(eu, "refused");
  const cases: [argv: string[], expected: RegExp][] = [
    [["refused"], /--to-context CONTEXT/],
    [["refused", "--to-context", "eu", "--yes"], /not the result of a move[\s\S]*--as NAME/],
    [["refused", "--to-listener", "nowhere", "--yes"], /There is no listener "nowhere"/],
    [["refused", "--to-context", "eu", "--as", "new", "--finish", "--yes"], /was not moved there/],
    [["refused", "--to-context", "eu", "--as", "new"], /--yes/],
  ];
  for (const [argv, expected] of cases) {
    const { code, stderr } = await runIn("move", ...argv);
    assert.notEqual(code, 0, argv.join(" "));
    assert.match(stderr, expected);
  }
  const { PIERHEAD_AGENT_POSTGRES_URL: _, ...without } = env;
  const argv = ["move", "refused", "--to-context", "eu", "--as", "new", "--yes", "--context", "us"];
  const unknown = await runCli(argv, { env: without });
  assert.match(unknown.stderr, /Set PIERHEAD_AGENT_POSTGRES_URL/);
  assert.equal(await find(eu, "new"), undefined, "nothing was created");
  const { PIERHEAD_TARGET_POSTGRES_URL: __, ...sameServer } = env;
  const elsewhere = await runCli(argv, { env: sameServer });
  assert.match(elsewhere.stderr, /Set PIERHEAD_TARGET_POSTGRES_URL/);
  assert.doesNotMatch(elsewhere.stderr, /^refused takes writes again/m, "it never refused them");
  const integration = ["--to-integration", "00000000-0000-4000-8000-000000000000"];
  const planned = await runIn("move", "refused", "--to-context", "eu", "--as", "other", "--dry-run", ...integration);
  assert.match(planned.stdout, /--to-integration 00000000-0000-4000-8000-000000000000 --as other --back/);
});
