import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../src/server/config.ts";
import { describeAgentDatabases } from "../../src/server/databases.ts";

test("the log names the databases of new deployments, without their passwords", () => {
  for (const [given, shown] of [
    [{}, "none"],
    [{ PIERHEAD_AGENT_POSTGRES_URL: "postgresql://a:canary@127.0.0.1:5433/postgres" }, "PostgreSQL at 127.0.0.1:5433"],
    [{ PIERHEAD_AGENT_POSTGRES_URL: "postgresql:///postgres?host=/var/run/postgresql&password=canary" }, "PostgreSQL"],
    [
      {
        PIERHEAD_AGENT_POSTGRES_URL: "postgresql://a:canary@db.internal/postgres",
        PIERHEAD_AGENT_POSTGRES_ADDRESS: "10.0.0.5:5432",
        PIERHEAD_AGENT_REDIS_URL: "redis://default:canary@redis.internal:6379/0",
      },
      "PostgreSQL at 10.0.0.5:5432, Redis at redis.internal:6379",
    ],
    [{ PIERHEAD_COMPUTE: "docker", PIERHEAD_AGENT_DATABASES: "containers" }, "PostgreSQL and Redis in containers"],
  ] as const) {
    assert.equal(describeAgentDatabases(readConfig(given)), shown);
  }
});
