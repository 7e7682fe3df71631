import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import pg from "pg";
import { type DatabaseServer, DatabaseServerError, databaseNameOf } from "../../src/provision/database-server.ts";
import { backUpDatabase, restoreDatabase } from "../../src/provision/postgres-backup.ts";
import { countRows } from "../../src/provision/postgres-hold.ts";
import { localPrograms, type PostgresPrograms } from "../../src/provision/postgres-programs.ts";
import { sharedPostgres } from "../../src/provision/shared-postgres.ts";
import { freePort } from "../support/free-port.ts";
import { type PostgresServer, postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer } from "../support/server.ts";

const limits = { tenantId: randomUUID(), connectionsMax: 3, cpuLimitCores: 1, memoryLimitMib: 512 };
const never = new AbortController().signal;
const newCredentials = () => ({ name: databaseNameOf(randomUUID()), password: randomUUID() });

let postgres: PostgresServer | undefined;
let address = "";

before(async () => {
  const port = await freePort();
  postgres = await startPostgresServer({ port });
  address = `127.0.0.1:${port}`;
});
after(() => postgres?.stop());

/**
 * A function of an agent that records the rights with which it runs, also when the caller has given up its role for now. It returns
 * false for the operator.
 */
const taking = `
  create schema evil;
  grant usage on schema evil to public;
  create table public.took (login text, who text);
  grant all on public.took to public;
  create function evil.take() returns boolean language plpgsql as $$
    begin
      if session_user like 'ph\\_%' then return true; end if;
      perform pg_catalog.set_config('role', 'none', false);
      insert into public.took values (session_user, current_user);
      return false;
    end $$;
`;

/** Views that stand for those of PostgreSQL in a session that looks in this schema first. */
const trojans = `
  create view evil.pg_available_extensions as
    select 'vector'::name as name, '1'::text as default_version, null::text as installed_version, ''::text as comment
     where evil.take();
  create view evil.pg_roles as select * from pg_catalog.pg_roles where evil.take();
`;

test("an agent's database does not run the agent's code as the operator when it is provisioned again", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  for (const adminUrl of await operators(postgres.url)) {
    const server = sharedPostgres({ adminUrl, address });
    const own = newCredentials();
    await server.ensure(own, limits, never);
    await connected(uriOf(server, own), async (agent) => {
      await agent.query(taking);
      await agent.query(trojans);
      await agent.query(`alter database ${own.name} set search_path = evil, public, pg_catalog`);
    });
    await server.ensure(own, limits, never);
    const took = await connected(uriOf(server, own), (agent) => agent.query("select * from public.took"));
    assert.deepEqual(took.rows, []);
  }
});

test("a restored table does not run the agent's code as the operator", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  const superuser = postgres.url;
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  for (const adminUrl of await operators(superuser)) {
    const server = sharedPostgres({ adminUrl, address });
    const own = newCredentials();
    await server.ensure(own, limits, never);
    await connected(uriOf(server, own), async (agent) => {
      await agent.query(taking);
      await agent.query("create table public.kept (id int check (evil.take() is not null))");
      await agent.query("insert into public.kept values (1)");
    });
    const programs = localPrograms({ adminUrl, name: own.name, env: process.env, signal: never });
    const at = { programs, name: own.name, file: path.join(directory, `${own.name}.dump`) };
    await backUpDatabase(at);
    await restoreDatabase(at);
    const took = await connected(uriOf(server, own), (agent) => agent.query("select * from public.took"));
    assert.deepEqual(took.rows, []);
    const left = await connected(superuser, (admin) =>
      admin.query("select rolname from pg_roles where rolname ~ '_restore$'"),
    );
    assert.deepEqual(left.rows, [], "the restore leaves no login behind");
  }
  await rm(directory, { recursive: true });
});

test("a view that replaces a table does not run the agent's code as the operator when a move counts rows", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  const server = sharedPostgres({ adminUrl: postgres.url, address });
  const own = newCredentials();
  await server.ensure(own, limits, never);
  const asAgent = (sql: string) => connected(uriOf(server, own), (agent) => agent.query(sql));
  await asAgent(taking);
  await asAgent("create table public.kept as select generate_series(1, 3000) as id");
  const programs = localPrograms({ adminUrl: postgres.url, name: own.name, env: process.env, signal: never });
  assert.equal((await countRows(programs))["public.kept"], 3000);
  let isReplaced = false;
  const replacing: PostgresPrograms = {
    ...programs,
    async run(...call) {
      await programs.run(...call);
      if (isReplaced) return;
      isReplaced = true;
      // Between the list of tables and the count.
      await asAgent("drop table public.kept; create view public.kept as select 1 where evil.take()");
    },
  };
  await assert.rejects(countRows(replacing), DatabaseServerError);
  assert.deepEqual((await asAgent("select * from public.took")).rows, []);
});

test("an agent that is connected to the template of databases does not keep others from getting one", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  const server = sharedPostgres({ adminUrl: postgres.url, address });
  const [own, other] = [newCredentials(), newCredentials()];
  await server.ensure(own, limits, never);
  const template = new URL(uriOf(server, own));
  template.pathname = "template1";
  await connected(template.href, async (agent) => {
    await agent.query("select lo_from_bytea(0, 'left by an agent')");
    await server.ensure(other, limits, AbortSignal.timeout(20_000));
  });
  const left = await connected(uriOf(server, other), (agent) => agent.query("select 1 from pg_largeobject_metadata"));
  assert.equal(left.rowCount, 0);
});

test("an agent does not connect to the server's own database on the same PostgreSQL", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  await connected(postgres.url, async (admin) => {
    await admin.query("create role control login password 'x'");
    await admin.query("create database control owner control");
  });
  const environment = {
    DATABASE_URL: `postgresql://control:x@${address}/control`,
    PIERHEAD_COMPUTE: "simulated",
    PIERHEAD_AGENT_POSTGRES_URL: postgres.url,
  };
  await using pierhead = await startTestServer(environment);
  const server = sharedPostgres({ adminUrl: postgres.url, address });
  const own = newCredentials();
  await server.ensure(own, limits, never);
  const url = new URL(uriOf(server, own));
  url.pathname = "control";
  await assert.rejects(
    connected(url.href, async () => {}),
    /permission denied for database/,
  );
  await pierhead.restart();
  assert.equal((await fetch(`${pierhead.url}/ok`)).status, 200);
});

test("a session of an agent in the server's own database ends with the next start, and its locks with it", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  await connected(postgres.url, (admin) => admin.query("create database held"));
  const server = sharedPostgres({ adminUrl: postgres.url, address });
  const own = newCredentials();
  await server.ensure(own, limits, never);
  const url = new URL(uriOf(server, own));
  url.pathname = "held";
  const agent = new pg.Client({ connectionString: url.href });
  agent.on("error", () => {});
  await agent.connect();
  const ended = new Promise((resolve) => agent.once("end", resolve));
  // The lock of migrations.
  await agent.query("select pg_advisory_lock(1885955442)");
  const databaseUrl = new URL(postgres.url);
  databaseUrl.pathname = "held";
  await using pierhead = await startTestServer({
    DATABASE_URL: databaseUrl.href,
    PIERHEAD_COMPUTE: "simulated",
    PIERHEAD_AGENT_POSTGRES_URL: postgres.url,
  });
  assert.equal((await fetch(`${pierhead.url}/ok`)).status, 200);
  await ended;
});

test("the operator's role may use the server's own database to create those of agents", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  await connected(postgres.url, async (admin) => {
    await admin.query("create role shared login password 'x'");
    await admin.query('create database "shared.one" owner shared');
    await admin.query("create role \"op'er\" login createrole createdb password 'x'");
  });
  const ownUrl = `postgresql://shared:x@${address}/shared.one`;
  const adminUrl = `postgresql://op'er:x@${address}/shared.one`;
  const environment = { DATABASE_URL: ownUrl, PIERHEAD_COMPUTE: "simulated", PIERHEAD_AGENT_POSTGRES_URL: adminUrl };
  await using pierhead = await startTestServer(environment);
  const server = sharedPostgres({ adminUrl, address });
  await server.ensure(newCredentials(), limits, never);
  await pierhead.restart();
  await server.ensure(newCredentials(), limits, never);
});

test("roles keep their right to the server's own database where agents have another PostgreSQL", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  await connected(postgres.url, async (admin) => {
    await admin.query("create role apart login password 'x'");
    await admin.query("create database apart owner apart");
    await admin.query("create role reports login password 'x'");
  });
  const elsewhere = `postgresql://not_here:x@127.0.0.1:${await freePort()}/postgres`;
  const environment = {
    DATABASE_URL: `postgresql://apart:x@${address}/apart`,
    PIERHEAD_COMPUTE: "simulated",
    PIERHEAD_AGENT_POSTGRES_URL: elsewhere,
  };
  await using pierhead = await startTestServer(environment);
  assert.equal((await fetch(`${pierhead.url}/ok`)).status, 200);
  await connected(`postgresql://reports:x@${address}/apart`, async () => {});
});

/** Returns the URLs of a superuser and of a role that may only create roles and databases. */
async function operators(url: string): Promise<string[]> {
  await connected(url, async (admin) => {
    await admin.query("drop role if exists operator");
    await admin.query("create role operator login createrole createdb password 'x'");
  }).catch(() => {});
  const plain = new URL(url);
  plain.username = "operator";
  return [url, plain.href];
}

const uriOf = (server: DatabaseServer, credentials: { name: string; password: string }) =>
  server.environment(credentials)["DATABASE_URI"] as string;

async function connected<T>(url: string, act: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    return await act(client);
  } finally {
    await client.end();
  }
}
