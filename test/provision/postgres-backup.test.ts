import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import pg from "pg";
import { databaseNameOf } from "../../src/provision/database-server.ts";
import { backUpDatabase, restoreDatabase } from "../../src/provision/postgres-backup.ts";
import { localPrograms } from "../../src/provision/postgres-programs.ts";
import { sharedPostgres } from "../../src/provision/shared-postgres.ts";
import { type PostgresServer, postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";

const never = new AbortController().signal;

let postgres: PostgresServer | undefined;
let directory = "";
before(async () => {
  postgres = await startPostgresServer();
  directory = await mkdtemp(path.join(tmpdir(), "pierhead-backup-"));
});
after(async () => {
  await postgres?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** A database of a deployment, with queries as its owner and as the operator. */
async function newDatabase({ url }: PostgresServer) {
  const credentials = { name: databaseNameOf(randomUUID()), password: randomUUID() };
  const spec = { tenantId: randomUUID(), connectionsMax: 5, cpuLimitCores: 1, memoryLimitMib: 512 };
  await sharedPostgres({ adminUrl: url, address: undefined }).ensure(credentials, spec, never);
  const target = new URL(url);
  target.pathname = credentials.name;
  const say = async (user: string, text: string) => {
    target.username = user;
    const client = new pg.Client({ connectionString: target.href });
    await client.connect();
    return client.query(text).finally(() => client.end());
  };
  const options = (file: string, name = credentials.name) => ({
    name,
    file: path.join(directory, file),
    programs: localPrograms({ adminUrl: url, name, env: process.env, signal: never }),
  });
  return {
    options,
    asAdmin: (text: string) => say("postgres", text),
    asOwner: (text: string) => say(credentials.name, text),
    rows: async () => (await say(credentials.name, "select id from kept order by id")).rows.map(({ id }) => id),
  };
}

test("a restore replaces the content of the same or another database, and its owner owns everything", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  const [first, second] = [await newDatabase(postgres), await newDatabase(postgres)];
  await first.asAdmin("create extension pg_trgm");
  await first.asOwner(
    "create table kept (id int primary key, of text); create index on kept using gin (of gin_trgm_ops)",
  );
  await first.asOwner("insert into kept values (1, 'one'), (2, 'two')");
  await backUpDatabase(first.options("first.dump"));
  assert.equal((await stat(path.join(directory, "first.dump"))).mode & 0o077, 0);
  await first.asOwner("delete from kept where id = 1; insert into kept values (3, 'three')");
  await restoreDatabase(first.options("first.dump"));
  assert.deepEqual(await first.rows(), [1, 2]);
  await first.asOwner("alter table kept add column more int");
  await second.asAdmin("create extension pg_trgm");
  await restoreDatabase(second.options("first.dump"));
  assert.deepEqual(await second.rows(), [1, 2]);
  await second.asOwner("drop table kept");
});

test("a failed restore changes nothing, and a failed backup leaves no file", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  const own = await newDatabase(postgres);
  await own.asOwner("create table kept (id int primary key); insert into kept select generate_series(1, 20000)");
  await backUpDatabase(own.options("own.dump"));
  await own.asOwner("delete from kept where id > 1");
  await truncate(path.join(directory, "own.dump"), (await stat(path.join(directory, "own.dump"))).size - 2_000);
  await assert.rejects(restoreDatabase(own.options("own.dump")), /pg_restore on PostgreSQL at/);
  assert.deepEqual(await own.rows(), [1]);
  const missing = own.options("missing.dump", databaseNameOf(randomUUID()));
  await assert.rejects(backUpDatabase(missing), /pg_dump.*does not exist/s);
  assert.deepEqual(
    (await readdir(directory)).filter((name) => name.startsWith("missing")),
    [],
  );
});

test("programs get an IPv6 address without brackets", async () => {
  const program = path.join(directory, "pg_dump");
  await writeFile(program, '#!/bin/sh\nprintf "%s %s" "$PGHOST" "$PGPORT"\n', { mode: 0o755 });
  const adminUrl = "postgresql://operator@[::1]:5433/postgres";
  const programs = localPrograms({ adminUrl, name: "ph_1", env: { PATH: directory }, signal: never });
  const output = new PassThrough();
  const [said] = await Promise.all([text(output), programs.run("pg_dump", [], output)]);
  assert.equal(said, "::1 5433");
});
