import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { type HostileListener, openHostileListener } from "./hostile-listener.ts";
import { startWithTwoWorkspaces, type TwoWorkspaces } from "./two-workspaces.ts";

/** What a listener of one workspace must not do with its reports to another workspace, or to the server. */
let world: TwoWorkspaces;
let listener: HostileListener;
let own: { id: string; revisionId: string };
let victim: { id: string; revisionId: string };
before(async () => {
  world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "none" });
  listener = await openHostileListener(world.pierhead, world.attacker);
  own = await listener.deploy("own");
  victim = await (await openHostileListener(world.pierhead, world.victim)).deploy("victim");
});
after(() => world[Symbol.asyncDispose]());

const lineOf = ({ id, revisionId }: { id: string; revisionId: string }, key: string) => ({
  ...{ deployment_id: id, revision_id: revisionId, replica_id: "one", key, stream: "stdout", level: "INFO" },
  ...{ timestamp: new Date().toISOString(), message: "forged" },
});

test("a listener must not write into the log of another workspace by naming its revision", async () => {
  const lines = [lineOf({ id: own.id, revisionId: victim.revisionId }, "a"), lineOf(victim, "b")];
  assert.equal((await listener.call("POST", "/dp/v1/logs", { lines })).status, 204);
  const answer = await fetch(
    `${world.pierhead.url}/v1/projects/${victim.id}/revisions/${victim.revisionId}/deploy_logs`,
    {
      ...{ method: "POST", body: "{}", signal: AbortSignal.timeout(30_000) },
      headers: { "x-api-key": world.victim.apiKey, "content-type": "application/json" },
    },
  );
  assert.equal(answer.status, 200);
  assert.doesNotMatch(await answer.text(), /forged/);
});

test("the key of a log line must not be longer than an index can hold", async () => {
  const lines = [lineOf(own, Array.from({ length: 500 }, () => crypto.randomUUID()).join(""))];
  assert.equal((await listener.call("POST", "/dp/v1/logs", { lines })).status, 422);
});

const sample = (more: object) => ({
  ...{ deployment_id: own.id, interval_ms: 60_000, replicas: 1, cpu_cores: 1, memory_mib: 1, restarts: 0 },
  ...{ requests: 1, errors: 0, latency_counts: new Array(latencyBoundsMs.length + 1).fill(0), ...more },
});

test("numbers that do not fit must not be an error of the server, however often they are added", async () => {
  const huge = 9e18;
  const minute = Math.floor(Date.now() / 60_000) * 60_000;
  for (const seconds of [1, 2, 3]) {
    const at = new Date(minute + seconds * 1_000).toISOString();
    const latency_counts = new Array(latencyBoundsMs.length + 1).fill(huge);
    const counts = { replicas: huge, restarts: huge, requests: huge, errors: huge, latency_counts };
    const samples = [sample({ at, ...counts, input_tokens: huge })];
    assert.equal((await listener.call("POST", "/dp/v1/metrics", { samples })).status, 204);
  }
});

test("samples of the future must not be kept without end", async () => {
  const samples = ["9999-12-31T23:59:59Z", new Date(Date.now() + 48 * 3_600_000).toISOString()].map((at) =>
    sample({ at, requests: 5 }),
  );
  assert.equal((await listener.call("POST", "/dp/v1/metrics", { samples })).status, 204);
  const { rows } = await world.pierhead.server.db.query(sql`
    select at from metric_minutes where at > now() + interval '1 day'`);
  assert.deepEqual(rows, []);
  const ahead = [sample({ at: new Date(Date.now() + 3_600_000).toISOString() })];
  assert.equal((await listener.call("POST", "/dp/v1/metrics", { samples: ahead })).status, 204);
  const kept = await world.pierhead.server.db.query(sql`
    select at from metric_minutes where at > now() + interval '50 minutes'`);
  assert.equal(kept.rows.length, 1, "the clock of a listener may be ahead");
});

test("log lines of the future must not be kept without end", async () => {
  const timestamps = ["9999-12-31T23:59:59Z", new Date(Date.now() + 48 * 3_600_000).toISOString()];
  const lines = timestamps.map((timestamp, at) => ({ ...lineOf(own, `future-${at}`), timestamp }));
  assert.equal((await listener.call("POST", "/dp/v1/logs", { lines })).status, 204);
  const { rows } = await world.pierhead.server.db.query<{ is_old_enough: boolean }>(sql`
    select logged_at < now() + interval '1 minute' as is_old_enough from log_entries where line_key like 'future-%'`);
  assert.deepEqual(rows, [{ is_old_enough: true }, { is_old_enough: true }], "they have the time of their arrival");
});

test("a listener that calls on hundreds of connections must wait for its turn, and is refused beyond its queue", async () => {
  const calls: [method: "GET" | "POST", path: string, body?: object][] = [
    ["POST", "/dp/v1/heartbeat"],
    ["GET", "/dp/v1/desired?after=0&wait=0"],
    ["GET", "/dp/v1/builds?wait=0"],
    ["POST", "/dp/v1/image-removals", { ended: null }],
    ["GET", `/dp/v1/deployments/${own.id}/secrets?secret_set_id=${own.id}`],
    ["POST", "/dp/v1/status", { reports: [] }],
  ];
  for (const call of calls) {
    const answers = await Promise.all(Array.from({ length: 600 }, () => listener.call(...call)));
    const statuses = new Set(answers.map(({ status }) => status));
    assert.ok(statuses.has(429), `${call[1]} answered ${[...statuses]}`);
    assert.ok(statuses.size > 1, `${call[1]} is served meanwhile`);
  }
  assert.equal((await listener.call("POST", "/dp/v1/heartbeat")).status, 200);
});
