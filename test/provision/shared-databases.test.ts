import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { createClient } from "@redis/client";
import pg from "pg";
import { type DatabaseServer, DatabaseServerError, databaseNameOf } from "../../src/provision/database-server.ts";
import { sharedPostgres } from "../../src/provision/shared-postgres.ts";
import { sharedRedis } from "../../src/provision/shared-redis.ts";
import { freePort } from "../support/free-port.ts";
import { type PostgresServer, postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { type RedisServer, redisSkipped, startRedisServer } from "./redis-server.ts";

const limits = { tenantId: randomUUID(), connectionsMax: 3, cpuLimitCores: 1, memoryLimitMib: 512 };
const never = new AbortController().signal;
const newCredentials = () => ({ name: databaseNameOf(randomUUID()), password: randomUUID() });

let postgres: PostgresServer | undefined;
let redis: RedisServer | undefined;
let onPostgres: DatabaseServer;
let onRedis: DatabaseServer;

before(async () => {
  const port = await freePort();
  postgres = await startPostgresServer({ port });
  if (postgres) onPostgres = sharedPostgres({ adminUrl: postgres.url, address: `127.0.0.1:${port}` });
  if (redisSkipped === undefined) redis = await startRedisServer();
  if (redis) onRedis = sharedRedis({ adminUrl: redis.url, address: undefined });
});
after(async () => {
  await postgres?.stop();
  await redis?.stop();
});

test("a deployment owns its database, and its password opens no other", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  const [own, other] = [newCredentials(), newCredentials()];
  await onPostgres.ensure(own, limits, never);
  await onPostgres.ensure(own, limits, never);
  await onPostgres.ensure(other, limits, never);
  await connected(uriOf(own), async (client) => {
    await client.query("create table kept (id int)");
    await client.query("create schema of_its_own");
    for (const sql of [
      "create role intruder",
      "create database more",
      "select * from pg_authid",
      "set role postgres",
    ]) {
      await assert.rejects(client.query(sql), /permission denied/, sql);
    }
  });
  const { username, password } = new URL(uriOf(own));
  const theirs = new URL(uriOf(other));
  theirs.username = username;
  theirs.password = password;
  await assert.rejects(
    connected(theirs.href, async () => {}),
    /permission denied for database/,
  );
  theirs.username = other.name;
  await assert.rejects(
    connected(theirs.href, async () => {}),
    /password authentication failed/,
  );
});

test("the connections of a deployment are limited, and removing it closes them and deletes its data", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  const own = newCredentials();
  await onPostgres.ensure(own, limits, never);
  const clients = await Promise.all(Array.from({ length: limits.connectionsMax }, () => connect(uriOf(own))));
  await assert.rejects(connect(uriOf(own)), /too many connections for role/);
  await onPostgres.remove(own.name, never);
  await onPostgres.remove(own.name, never);
  await assert.rejects(connect(uriOf(own)));
  const left = await connected(postgres.url, async (admin) =>
    admin.query(
      "select datname from pg_database where datname = $1 union select rolname from pg_roles where rolname = $1",
      [own.name],
    ),
  );
  assert.equal(left.rowCount, 0);
  await Promise.all(clients.map((client) => client.end().catch(() => {})));
});

test("a role that may only create roles and databases is sufficient", async (context) => {
  if (!postgres) return context.skip(postgresSkipped);
  await connected(postgres.url, (admin) => admin.query("create role operator login createrole createdb password 'x'"));
  const url = new URL(postgres.url);
  url.username = "operator";
  const server = sharedPostgres({ adminUrl: url.href, address: new URL(uriOf(newCredentials())).host });
  const own = newCredentials();
  await server.ensure(own, limits, never);
  await connected(uriOf(own), (client) => client.query("create table kept (id int)"));
  await server.remove(own.name, never);
});

test("a deployment reads and writes only keys and channels with its own prefix", async (context) => {
  if (!redis) return context.skip(redisSkipped as string);
  const [own, other] = [newCredentials(), newCredentials()];
  await onRedis.ensure(own, limits, never);
  await onRedis.ensure(other, limits, never);
  const variables = onRedis.environment(own);
  const client = await createClient({ url: variables["REDIS_URI"] as string })
    .on("error", () => {})
    .connect();
  try {
    const prefix = variables["REDIS_KEY_PREFIX"] as string;
    await client.set(`${prefix}kept`, "1");
    assert.equal(await client.get(`${prefix}kept`), "1");
    for (const words of [
      ["GET", `${other.name}:kept`],
      ["KEYS", "*"],
      ["PUBLISH", `${other.name}:news`, "x"],
      ["FLUSHALL"],
      ["CONFIG", "GET", "*"],
      ["ACL", "LIST"],
      // These name no key, but they reveal or change data of all users of the server.
      ["SCAN", "0"],
      ["RANDOMKEY"],
      ["PUBSUB", "CHANNELS"],
      ["CLIENT", "TRACKING", "ON", "BCAST"],
      ["FUNCTION", "LIST"],
      ["FUNCTION", "FLUSH"],
      ["FUNCTION", "LOAD", "REPLACE", "#!lua name=theirs\nredis.register_function('f', function() return 1 end)"],
      ["SCRIPT", "FLUSH"],
      ["SCRIPT", "KILL"],
    ]) {
      await assert.rejects(client.sendCommand(words), /NOPERM/, words.join(" "));
    }
    const script = "return redis.call('GET', KEYS[1])";
    assert.equal(await client.sendCommand(["EVAL", script, "1", `${prefix}kept`]), "1");
    const digest = (await client.sendCommand(["SCRIPT", "LOAD", script])) as unknown as string;
    assert.equal(await client.sendCommand(["EVALSHA", digest, "1", `${prefix}kept`]), "1");
    await assert.rejects(client.sendCommand(["EVAL", script, "1", `${other.name}:kept`]), /NOPERM|permission/i);
  } finally {
    client.destroy();
  }
  const admin = await createClient({ url: redis.url }).connect();
  try {
    await onRedis.remove(own.name, never);
    await onRedis.remove(own.name, never);
    assert.deepEqual(await admin.keys(`${own.name}:*`), []);
    assert.equal(
      (await admin.aclList()).some((line) => line.includes(own.name)),
      false,
    );
    assert.equal(
      (await admin.aclList()).some((line) => line.includes(other.name)),
      true,
    );
  } finally {
    admin.destroy();
  }
});

test("an unreachable server is named without its password", async () => {
  const cases = [
    sharedPostgres({ adminUrl: "postgresql://admin:hidden@127.0.0.1:1/postgres", address: undefined }),
    sharedRedis({ adminUrl: "redis://admin:hidden@127.0.0.1:1/0", address: undefined }),
  ];
  for (const server of cases) {
    await assert.rejects(server.ensure(newCredentials(), limits, never), (error: Error) => {
      assert.ok(error instanceof DatabaseServerError);
      assert.match(error.message, /at 127\.0\.0\.1:1: .*ECONNREFUSED/);
      assert.doesNotMatch(error.message, /hidden/);
      return true;
    });
  }
});

const uriOf = (credentials: { name: string; password: string }) =>
  onPostgres.environment(credentials)["DATABASE_URI"] as string;

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function connected<T>(url: string, act: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connect(url);
  try {
    return await act(client);
  } finally {
    await client.end();
  }
}
