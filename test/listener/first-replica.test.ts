import assert from "node:assert/strict";
import { test } from "node:test";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { replicaEnvironment } from "../../src/listener/session/secrets.ts";
import { PlanWorld, revisionRun } from "./plan-world.ts";

const startingAlone = (name: string): RevisionRun => {
  const run = revisionRun(name, { min_replicas: 3 });
  return { ...run, artifact: { ...run.artifact, starts_alone: true } };
};

const startsOf = (world: PlanWorld) => world.pass().actions.filter(({ kind }) => kind === "start").length;

const becomeReady = (world: PlanWorld) => {
  for (const replica of world.replicas) if (replica.phase === "starting") replica.phase = "ready";
};

test("starts one replica of a version with commands before its start, and the others when it is ready", () => {
  const world = new PlanWorld({ target: startingAlone("a") });
  assert.deepEqual([startsOf(world), startsOf(world)], [1, 0]);
  becomeReady(world);
  assert.equal(startsOf(world), 2);
  world.settleDown();
  world.assign({ target: startingAlone("b") });
  assert.deepEqual([startsOf(world), startsOf(world)], [1, 0]);
  assert.equal(world.replicas.filter(({ run, phase }) => run.revision_id === "a" && phase === "ready").length, 3);
  becomeReady(world);
  assert.equal(startsOf(world), 2);
});

test("starts all replicas of any other version at once", () => {
  assert.equal(startsOf(new PlanWorld({ target: revisionRun("a", { min_replicas: 3 }) })), 3);
});

test("gives the address of the database in DATABASE_URL to a project that asks for it", () => {
  const { env, artifact } = revisionRun("a");
  const asking = { env, artifact: { ...artifact, variables: ["OPENAI_API_KEY", "DATABASE_URL"] } };
  const DATABASE_URI = "postgresql://127.0.0.1:1/own";
  const urlOf = (secrets: Record<string, string>, run: Pick<RevisionRun, "env" | "artifact"> = asking) =>
    replicaEnvironment(secrets, run)["DATABASE_URL"];
  assert.equal(urlOf({ DATABASE_URI }), DATABASE_URI);
  assert.equal(urlOf({ DATABASE_URI, DATABASE_URL: "mysql://127.0.0.1:1/theirs" }), "mysql://127.0.0.1:1/theirs");
  assert.equal(urlOf({ DATABASE_URI }, { env, artifact }), undefined);
  assert.equal(urlOf({}), undefined);
});

test("sets the database's address with the driver that the project's example file names", () => {
  const { env, artifact } = revisionRun("a");
  const schemes = { DATABASE_URL: "postgresql+asyncpg", POSTGRES_DSN: "postgres" };
  const run = { env, artifact: { ...artifact, database_schemes: schemes, variables: ["DATABASE_URL"] } };
  const DATABASE_URI = "postgresql://me:pass@db.internal:6543/own";
  const given = replicaEnvironment({ DATABASE_URI }, run);
  assert.equal(given["DATABASE_URL"], "postgresql+asyncpg://me:pass@db.internal:6543/own");
  assert.equal(given["POSTGRES_DSN"], "postgres://me:pass@db.internal:6543/own");
  assert.equal(replicaEnvironment({ DATABASE_URI, DATABASE_URL: "theirs" }, run)["DATABASE_URL"], "theirs");
  assert.equal(replicaEnvironment({}, run)["DATABASE_URL"], undefined);
});

test("gives the parts of the database's address to a project that asks for them", () => {
  const { env, artifact } = revisionRun("a");
  const asking = { env, artifact: { ...artifact, variables: ["POSTGRES_HOST", "POSTGRES_PASSWORD"] } };
  const DATABASE_URI = "postgresql://me:a%2Fb@db.internal:6543/own";
  const { POSTGRES_HOST, POSTGRES_PORT, POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB } = replicaEnvironment(
    { DATABASE_URI, POSTGRES_DB: "theirs" },
    asking,
  );
  assert.deepEqual(
    [POSTGRES_HOST, POSTGRES_PORT, POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB],
    ["db.internal", "6543", "me", "a/b", "theirs"],
  );
  assert.equal(replicaEnvironment({ DATABASE_URI, POSTGRES_HOST: "own" }, asking)["POSTGRES_USER"], undefined);
  const parts = { PGHOST: "host", PGPORT: "port", PGDATABASE: "name" };
  const named = { env, artifact: { ...artifact, database_parts: parts } };
  const { PGHOST, PGPORT, PGDATABASE } = replicaEnvironment({ DATABASE_URI, PGPORT: "1" }, named);
  assert.deepEqual([PGHOST, PGPORT, PGDATABASE], ["db.internal", "1", "own"]);
  assert.equal(replicaEnvironment({ DATABASE_URI, PGHOST: "own" }, named)["PGDATABASE"], undefined);
  assert.equal(replicaEnvironment({ DATABASE_URI, DATABASE_URL: "own" }, named)["PGHOST"], undefined);
  // The password belongs to another server, which the project finds at its default address.
  const withPassword = { ...named, artifact: { ...artifact, database_parts: { ...parts, PGPASSWORD: "password" } } };
  assert.equal(replicaEnvironment({ DATABASE_URI, PGPASSWORD: "own" }, withPassword)["PGHOST"], undefined);
  assert.equal(replicaEnvironment({ DATABASE_URI, PGPASSWORD: "a/b" }, withPassword)["PGHOST"], "db.internal");
  const unescaped = replicaEnvironment({ DATABASE_URI: "postgresql://me:100%@db.internal/own" }, asking);
  assert.equal(unescaped["POSTGRES_PASSWORD"], "100%");
  const local = replicaEnvironment({ DATABASE_URI: "postgresql:///own?host=/run/postgresql" }, asking);
  assert.equal(local["POSTGRES_HOST"], undefined);
});
