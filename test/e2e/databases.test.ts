import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";
import pg from "pg";
import { ApiFailure, type Client } from "../../src/client/client.ts";
import { databaseNameOf } from "../../src/provision/database-server.ts";
import { runCli } from "../cli/run-cli.ts";
import { type RedisServer, redisSkipped, startRedisServer } from "../provision/redis-server.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { type PostgresServer, postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer } from "../support/server.ts";

let port: number;
let postgres: PostgresServer | undefined;
let redis: RedisServer | undefined;
before(async () => {
  port = await freePort();
  postgres = await startPostgresServer({ port });
  if (redisSkipped === undefined) redis = await startRedisServer();
});
after(async () => {
  await postgres?.stop();
  await redis?.stop();
});

test("gives every deployment its own database and drops it with the deployment", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  if (!redis) return context.skip(redisSkipped as string);
  await using pierhead = await startTestServer({
    PIERHEAD_AGENT_POSTGRES_URL: postgres.url,
    PIERHEAD_AGENT_POSTGRES_ADDRESS: `127.0.0.1:${port}`,
    PIERHEAD_AGENT_REDIS_URL: redis.url,
  });
  const example = "PGHOST=localhost\nPGPORT=5432\nPGUSER=app\nPGPASSWORD=\nPGDATABASE=app\n";
  await using repository = await createAgentRepository({ ...nodeAgent("one"), ".env.example": example });
  const [first, second] = await Promise.all([
    deploy(pierhead.client, repository.url, { name: "first" }),
    deploy(pierhead.client, repository.url, { name: "second" }),
  ]);
  const given = (await askAgent(pierhead.client, first)) as Record<string, string>;
  assert.notEqual(given["DATABASE_URI"], ((await askAgent(pierhead.client, second)) as typeof given)["DATABASE_URI"]);
  assert.equal(given["POSTGRES_URI"], given["DATABASE_URI"]);
  assert.ok(given["REDIS_URI"]?.includes(String(given["REDIS_KEY_PREFIX"]).replace(":", "")));
  const { PGHOST: host, PGPORT, PGUSER: user, PGPASSWORD: password, PGDATABASE: database } = given;
  const client = new pg.Client({ host, port: Number(PGPORT), user, password, database });
  await client.connect();
  await client.query("create table kept (id int)");
  await client.end();

  const again = await pierhead.client.redeployRevision({ deployment_id: first.id, revision_id: first.revisionId });
  await settled(pierhead.client, first.id, again.latest_revision_id as string, "DEPLOYED");
  const after = (await askAgent(pierhead.client, first)) as Record<string, string>;
  assert.equal(after["DATABASE_URI"], given["DATABASE_URI"], "the same database after a redeploy");
  assert.ok(await hasDatabase(postgres.url, first.id));

  const cli = { env: { ...process.env, PIERHEAD_AGENT_POSTGRES_URL: postgres.url, PIERHEAD_URL: pierhead.url } };
  const as = ["--json", "--data-dir", pierhead.dataDir];
  const file = path.join(pierhead.dataDir, "first.dump");
  const backup = await runCli(["database", "backup", "first", file, ...as], cli);
  assert.equal(backup.code, 0, backup.stderr);
  assert.equal(JSON.parse(backup.stdout).file, file);
  const restore = await runCli(["database", "restore", "second", file, "--yes", ...as], cli);
  assert.equal(restore.code, 0, restore.stderr);
  assert.ok(await hasTable(postgres.url, second.id, "kept"), "another deployment can restore the backup");

  await pierhead.client.deleteDeployment({ deployment_id: first.id });
  await gone(pierhead.client, first.id);
  assert.equal(await hasDatabase(postgres.url, first.id), false);
  assert.ok(await hasDatabase(postgres.url, second.id));
});

test("a deployment with its own database never gets another one, even when a revision removes the setting", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  await using pierhead = await startTestServer({
    PIERHEAD_AGENT_POSTGRES_URL: postgres.url,
    PIERHEAD_AGENT_POSTGRES_ADDRESS: `127.0.0.1:${port}`,
  });
  await using repository = await createAgentRepository();
  const own = "postgresql://owner:theirs@127.0.0.1:1/theirs";
  const secrets = [{ name: "POSTGRES_URI_CUSTOM", value: own }];
  const made = await deploy(pierhead.client, repository.url, { name: "own", secrets });
  const given = (await askAgent(pierhead.client, made)) as Record<string, string>;
  assert.deepEqual([given["DATABASE_URI"], given["POSTGRES_URI"]], [own, own]);
  assert.equal(await hasDatabase(postgres.url, made.id), false);

  const without = await pierhead.client.patchDeployment({
    deployment_id: made.id,
    body: { secrets: [{ name: "OTHER", value: "1" }] },
  });
  const failed = await settled(pierhead.client, made.id, without.latest_revision_id as string, "CREATE_FAILED");
  assert.match(failed.status_message ?? "", /Set POSTGRES_URI_CUSTOM again/);
  assert.equal(((await askAgent(pierhead.client, made)) as Record<string, string>)["DATABASE_URI"], own);
});

test("a deployment waits while the database server is down, shows the reason, and continues when it is up", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  const laterPort = await freePort();
  await using pierhead = await startTestServer({
    PIERHEAD_AGENT_POSTGRES_URL: `postgresql://postgres:x@127.0.0.1:${laterPort}/postgres`,
  });
  await using repository = await createAgentRepository();
  const created = await pierhead.client.createDeployment({ body: bodyOf(repository.url, { name: "waits" }) });
  const why = () => pierhead.client.debugDeployment({ deployment_id: created.id });
  await eventually(why, (debug) =>
    JSON.stringify(debug).includes("the database is not provisioned yet: PostgreSQL at"),
  );
  assert.equal((await pierhead.client.getDeployment({ deployment_id: created.id })).status, "AWAITING_DATABASE");
  const late = await startPostgresServer({ port: laterPort });
  try {
    const admin = new pg.Client({ connectionString: late?.url as string });
    await admin.connect();
    await admin.query("alter role postgres password 'x'");
    await admin.end();
    await settled(pierhead.client, created.id, created.latest_revision_id as string, "DEPLOYED");
    await pierhead.client.deleteDeployment({ deployment_id: created.id });
    await gone(pierhead.client, created.id);
  } finally {
    await late?.stop();
  }
});

interface Wanted {
  name: string;
  secrets?: { name: string; value: string }[];
}

interface Made {
  id: string;
  revisionId: string;
}

const bodyOf = (repoUrl: string, wanted: Wanted) => ({
  ...wanted,
  source: "github" as const,
  source_config: { repo_url: repoUrl, deployment_type: "dev" as const, build_on_push: false },
  source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
});

async function deploy(client: Client, repoUrl: string, wanted: Wanted): Promise<Made> {
  const { id, latest_revision_id } = await client.createDeployment({ body: bodyOf(repoUrl, wanted) });
  const made = { id, revisionId: latest_revision_id as string };
  await settled(client, id, made.revisionId, "DEPLOYED");
  return made;
}

async function settled(client: Client, deploymentId: string, revisionId: string, status: string) {
  const revision = await client.waitForRevision({ deployment_id: deploymentId, revision_id: revisionId });
  assert.equal(revision.status, status, revision.status_message ?? "");
  return revision;
}

async function askAgent(client: Client, { id }: Made): Promise<unknown> {
  const { url } = await client.getDeployment({ deployment_id: id });
  return (await fetch(`${url}/env`)).json();
}

const gone = (client: Client, id: string) =>
  eventually(
    () =>
      client.getDeployment({ deployment_id: id }).then(
        () => false,
        (error: unknown) => error instanceof ApiFailure && error.status === 404,
      ),
    (isGone) => isGone,
    { what: "404" },
  );

async function hasDatabase(adminUrl: string, deploymentId: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  const { rowCount } = await client.query("select 1 from pg_database where datname = $1", [
    databaseNameOf(deploymentId),
  ]);
  await client.end();
  return rowCount === 1;
}

async function hasTable(adminUrl: string, deploymentId: string, name: string): Promise<boolean> {
  const url = new URL(adminUrl);
  url.pathname = databaseNameOf(deploymentId);
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  const { rows } = await client.query("select to_regclass($1) is not null as is_there", [name]);
  await client.end();
  return rows[0].is_there;
}
