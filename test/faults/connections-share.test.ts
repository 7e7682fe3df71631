import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { startWithTwoWorkspaces, type Workspace } from "../security/two-workspaces.ts";
import { openTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { postgresSkipped } from "../support/postgres-server.ts";

/** More requests than a server has connections to PostgreSQL. */
const requestCount = 60;

test("requests that wait for the lock of a row of their workspace must not hold the connections that another needs", async (context) => {
  const database = await openTestDatabase("postgres");
  if (database === undefined) return context.skip(postgresSkipped);
  const locker = new pg.Client({ connectionString: database.databaseUrl });
  await locker.connect();
  try {
    const environment = { DATABASE_URL: database.databaseUrl as string, PIERHEAD_COMPUTE: "none" };
    await using world = await startWithTwoWorkspaces(environment);
    const { pierhead, attacker, victim } = world;
    const own = await deploymentOf(attacker);
    const others = await deploymentOf(victim);
    const mute = (apiKey: string, id: string) =>
      fetch(`${pierhead.url}/v2/deployments/${id}/mute-alerts`, {
        method: "POST",
        headers: { "x-api-key": apiKey, "content-type": "application/json" },
        body: JSON.stringify({ until: new Date(Date.now() + 3_600_000).toISOString() }),
        signal: AbortSignal.timeout(20_000),
      }).then((answer) => answer.status);
    assert.equal(await mute(attacker.apiKey, own), 204);
    await locker.query("begin");
    await locker.query("select 1 from alert_mutes where deployment_id = $1 for update", [own]);
    const answers: number[] = [];
    const waiting = Array.from({ length: requestCount }, () =>
      mute(attacker.apiKey, own).then((status) => answers.push(status)),
    );
    await untilSomeWait(locker);
    assert.equal(await mute(victim.apiKey, others), 204);
    assert.deepEqual(answers, [], "all requests of the first workspace wait for the lock");
    await locker.query("commit");
    await Promise.all(waiting);
  } finally {
    await locker.end();
    await database.close();
  }
});

async function deploymentOf({ api }: Workspace): Promise<string> {
  const listener = await api.createListener({ body: { compute_type: "k8s", compute_id: "one", compute_config: {} } });
  const { id } = await api.createDeployment({
    body: {
      ...{ name: "agent", source: "external_docker", source_config: { listener_id: listener.id } },
      source_revision_config: { image_uri: "127.0.0.1:1/agent:1" },
    },
  });
  return id;
}

async function untilSomeWait(client: pg.Client): Promise<void> {
  const countWaiting = async () => {
    // Otherwise a transaction sees what the first look saw.
    await client.query("select pg_stat_clear_snapshot()");
    const { rows } = await client.query<{ count: string }>(
      "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    );
    return Number(rows[0]?.count);
  };
  await eventually(countWaiting, (count) => count >= 5, { timeoutMs: 20_000, what: "requests wait for the lock" });
}
