import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";
import pg from "pg";
import { databaseNameOf } from "../../src/provision/database-server.ts";
import { createDirectory, type Ran, runCli } from "../cli/run-cli.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
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

export type MoveWorld = Exclude<Awaited<ReturnType<typeof startMoveWorld>>, undefined>;

/** Starts two regions, `us` and `eu`, and logs the command line in to both. @returns undefined without PostgreSQL */
export async function startMoveWorld() {
  const [us, eu] = await Promise.all([startRegion(), startRegion()]);
  if (us === undefined || eu === undefined) return undefined;
  const repository = await createAgentRepository(notesAgent);
  const at = await createDirectory({});
  const env: Record<string, string | undefined> = {
    ...{ PATH: process.env["PATH"], HOME: at.directory, PIERHEAD_CONFIG_DIR: at.directory },
    ...{ PIERHEAD_AGENT_POSTGRES_URL: us.postgres.url, PIERHEAD_TARGET_POSTGRES_URL: eu.postgres.url },
  };
  for (const [name, { server }] of Object.entries({ eu, us })) {
    const given = { env, stdin: server.apiKey };
    const { code, stderr } = await runCli(["login", server.url, "--name", name, "--key"], given);
    assert.equal(code, 0, stderr);
  }
  const runIn = (...argv: string[]): Promise<Ran> => runCli([...argv, "--context", "us"], { env });
  return {
    ...{ us, eu, env, runIn },
    async succeed(...argv: string[]): Promise<Ran> {
      const ran = await runIn(...argv);
      assert.equal(ran.code, 0, `${argv.join(" ")}\n${ran.stdout}${ran.stderr}`);
      return ran;
    },
    async deploy({ server: { client } }: Region, name: string, groupIds: string[] = []) {
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
    },
    /** Starts a move to eu as a program of its own. */
    startMove: (name: string): ChildProcess =>
      spawn(process.execPath, ["src/main.ts", "move", name, "--to-context", "eu", "--yes", "--context", "us"], {
        env: env as NodeJS.ProcessEnv,
        stdio: "ignore",
      }),
    /** Waits until a move has deployed its target in eu. @returns the id of the target */
    async movedId(name: string): Promise<string> {
      const target = await eventually(
        () => find(eu, name),
        (found) => found?.active_revision_id != null,
        { timeoutMs: 60_000, what: `the target of ${name}` },
      );
      return target?.id as string;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([us[Symbol.asyncDispose](), eu[Symbol.asyncDispose]()]);
      await repository[Symbol.asyncDispose]();
      await at[Symbol.asyncDispose]();
    },
  };
}

export async function find({ server }: Region, name: string) {
  const [deployment] = (await server.client.listDeployments({ name })).resources;
  return deployment;
}

export async function connect({ postgres }: Region, deploymentId: string): Promise<pg.Client> {
  const url = new URL(postgres.url);
  url.pathname = databaseNameOf(deploymentId);
  const connection = new pg.Client({ connectionString: url.href });
  await connection.connect();
  return connection;
}

/** Runs a statement as the operator. */
export async function inDatabase(region: Region, deploymentId: string, statement: string): Promise<void> {
  const connection = await connect(region, deploymentId);
  await connection.query(`begin read write; ${statement}; commit`).finally(() => connection.end());
}

/** Locks the notes of a target, and waits until the restore of a move waits for them. */
export async function lockNotes(region: Region, deploymentId: string): Promise<{ release(): Promise<void> }> {
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

export const write = async (url: string | null, id: number) => (await fetch(`${url}/${id}`, { method: "POST" })).status;
export const read = async (url: string | null) => (await fetch(`${url}/notes`)).json() as Promise<number[]>;
