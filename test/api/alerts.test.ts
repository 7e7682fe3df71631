import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi();

test("a rule of a deployment replaces the workspace's, field by field, until it is inherited again", async () => {
  const payload = { name: randomUUID(), source: "internal_docker", source_config: {}, source_revision_config: {} };
  const { id } = (await t.ask({ method: "POST", url: "/v2/deployments", payload })).body;
  const url = `/v2/deployments/${id}/alert-rules`;
  const change = (body: object) => t.ask({ method: "PATCH", url, payload: { kind: "error_share", ...body } });
  await t.ask({ method: "PATCH", url: "/v2/alerts/rules", payload: { kind: "error_share", threshold: 20 } });
  const shown = async () => {
    const { rules } = (await t.ask({ url })).body;
    const rule = rules.find(({ kind }: { kind: string }) => kind === "error_share");
    return [rule.enabled, rule.threshold, rule.set_by];
  };
  assert.deepEqual(await shown(), [true, 20, "workspace"]);
  assert.equal((await change({ enabled: false })).body.set_by, "deployment");
  assert.deepEqual(await shown(), [false, 20, "deployment"]);
  await change({ threshold: 2, enabled: null });
  assert.deepEqual(await shown(), [true, 2, "deployment"]);
  await change({ threshold: null });
  assert.deepEqual(await shown(), [true, 20, "workspace"]);
  assert.equal((await change({ kind: "disk_used", enabled: false })).status, 422, "it concerns no deployment");
  assert.equal((await t.ask({ url: url.replace(id, randomUUID()) })).status, 404);
});

test("lists an alert about a key with its name and without a deployment", async () => {
  await t.db.query(sql`
    insert into alerts (id, tenant_id, subject_id, subject, kind, state, message, notified)
    values (gen_random_uuid(), ${t.tenant.tenantId}, 'k-1', 'ci', 'key_expiry', 'firing', 'The API key ci expires.', true)`);
  const { resources } = (await t.ask({ url: "/v2/alerts" })).body;
  assert.deepEqual(
    resources.map(({ deployment_id, deployment_name, subject, kind, muted_until }: Record<string, unknown>) => [
      ...[deployment_id, deployment_name, subject, kind, muted_until],
    ]),
    [[null, null, "ci", "key_expiry", null]],
  );
});

test("mutes and unmutes what an alert concerns, and records both", async () => {
  const id = randomUUID();
  await t.db.query(sql`
    insert into alerts (id, tenant_id, subject_id, subject, kind, state, message, notified)
    values (${id}, ${t.tenant.tenantId}, 's-1', 'host-1', 'disk_used', 'firing', 'The disk is full.', true)`);
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const mute = (alertId: string, payload: object) =>
    t.ask({ method: "POST", url: `/v2/alerts/${alertId}/mute`, payload });
  const shown = async () => {
    const { resources } = (await t.ask({ url: "/v2/alerts" })).body;
    return resources.find((one: { id: string }) => one.id === id).muted_until;
  };
  assert.equal((await mute(id, { until })).status, 204);
  assert.equal(await shown(), until);
  assert.equal((await mute(id, { until: null })).status, 204);
  assert.equal(await shown(), null);
  assert.equal((await mute(randomUUID(), { until })).status, 404);
  const { rows } = await t.db.query(
    sql`select data -> 'details' ->> 'kind' as kind from audit_log where action = 'alert.mute'`,
  );
  assert.deepEqual(rows, [{ kind: "disk_used" }, { kind: "disk_used" }]);
});
