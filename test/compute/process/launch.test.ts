import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { test } from "node:test";
import type { ReplicaSpec } from "../../../src/compute/compute.ts";
import { checkSpec } from "../../../src/compute/process/replicas/launch.ts";

test("refuses a replica whose engine lacks a database, and names the variable that gives it one", () => {
  const start = { runner: "langgraph-python", environment_dir: "/", packages_dir: ".", config_path: "langgraph.json" };
  const artifact = { kind: "directory", path: tmpdir(), start, engine: "aegra" };
  const check = (env: Record<string, string>) => checkSpec({ artifact, env } as unknown as ReplicaSpec);
  assert.throws(() => check({}), /engine aegra needs a PostgreSQL.*POSTGRES_URI_CUSTOM.*PIERHEAD_AGENT_POSTGRES_URL/);
  const database = { DATABASE_URI: "postgresql://127.0.0.1:1/agent" };
  assert.throws(() => check(database), /engine aegra needs a Redis.*REDIS_URI_CUSTOM.*PIERHEAD_AGENT_REDIS_URL/);
  assert.equal(check({ ...database, REDIS_URI: "redis://127.0.0.1:1" }).engine, "aegra");
});
