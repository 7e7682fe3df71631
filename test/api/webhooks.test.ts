import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi({ allowPrivateNetwork: false });
const url = "https://ci.example.org/hook?token=canary-1";
const create = (payload: object, more: { key?: string } = {}) =>
  t.ask({ method: "POST", url: "/v2/webhooks", payload, ...more });
const patch = (id: string, payload: object) => t.ask({ method: "PATCH", url: `/v2/webhooks/${id}`, payload });

async function newDeployment(key = t.tenant.adminKey): Promise<string> {
  const payload = { name: randomUUID(), source: "internal_docker", source_config: {}, source_revision_config: {} };
  return (await t.ask({ method: "POST", url: "/v2/deployments", payload, key })).body.id;
}

test("creates, reads, lists, changes and deletes a webhook; its secret is shown once and in no table", async () => {
  const deployment = await newDeployment();
  const made = await create({ url, description: "CI", types: ["revision.status"], deployment_ids: [deployment] });
  assert.equal(made.status, 201);
  const { secret, ...webhook } = made.body;
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{32}$/);
  assert.deepEqual(
    { ...webhook, id: "", created_at: "", updated_at: "" },
    {
      ...{ id: "", url, description: "CI", types: ["revision.status"], deployment_ids: [deployment], enabled: true },
      ...{ format: "standard", disabled_reason: null, failing_since: null, created_at: "", updated_at: "" },
    },
  );
  const at = `/v2/webhooks/${webhook.id}`;
  assert.deepEqual((await t.ask({ url: at })).body, webhook);
  assert.deepEqual((await t.ask({ url: "/v2/webhooks" })).body.resources, [webhook]);
  const changed = await patch(webhook.id, { types: null, deployment_ids: null, enabled: false });
  assert.deepEqual([changed.body.types, changed.body.deployment_ids, changed.body.enabled], [null, null, false]);
  assert.equal((await patch(webhook.id, { description: null })).body.description, null);
  assert.equal((await patch(webhook.id, {})).body.url, url);
  const replaced = await t.ask({ method: "POST", url: `${at}/secret` });
  assert.notEqual(replaced.body.secret, secret);
  for (const table of ["webhooks", "audit_log", "events", "idempotency_keys"]) {
    const { rows } = await t.db.query<{ row: string }>(sql`select t::text as row from ${sql.identifier(table)} t`);
    const text = rows.map(({ row }) => row).join();
    assert.ok(!text.includes(secret.slice(6)) && !text.includes(Buffer.from(secret).toString("hex")), table);
    assert.ok(table === "webhooks" || !text.includes("canary-1"), table);
  }
  assert.equal((await t.ask({ method: "DELETE", url: at })).status, 204);
  assert.deepEqual((await t.ask({ url: at })).body, { detail: `Webhook ID ${webhook.id} not found.` });
});

test("explains why an address can never be called", async () => {
  for (const [bad, words] of [
    ["ftp://example.org/", /http or https/],
    ["not a url", /http or https/],
    ["https://user:pass@example.org/", /user name/],
    ["http://127.0.0.1/", /127\.0\.0\.1.*not a public address/],
    ["http://[::1]:80/", /not a public address/],
    ["http://0x7f000001/", /127\.0\.0\.1/],
    ["http://169.254.169.254/latest", /not a public address/],
  ] as const) {
    const { status, body } = await create({ url: bad });
    assert.equal(status, 400, bad);
    assert.match(body.detail, words);
  }
  assert.equal((await create({ url: "" })).status, 422);
  assert.equal((await create({ url, types: ["no.such"] })).status, 422);
});

test("webhooks and deployments of another workspace answer like unknown ones", async () => {
  const { body: webhook } = await create({ url });
  const stranger = t.stranger.adminKey;
  const foreign = await newDeployment(stranger);
  const unknown = randomUUID();
  for (const id of [foreign, unknown]) {
    const refused = await create({ url, deployment_ids: [id] });
    assert.deepEqual([refused.status, refused.body.detail], [404, `Deployment ID ${id} not found.`]);
    assert.equal((await patch(webhook.id, { deployment_ids: [id] })).status, 404);
  }
  for (const [method, path] of [
    ["GET", ""],
    ["PATCH", ""],
    ["DELETE", ""],
    ["POST", "/secret"],
    ["POST", "/test"],
    ["GET", "/deliveries"],
    ["POST", `/deliveries/${unknown}/redeliver`],
  ] as const) {
    for (const id of [webhook.id, unknown]) {
      const payload = method === "PATCH" ? { payload: {} } : {};
      const { status, body } = await t.ask({ method, url: `/v2/webhooks/${id}${path}`, key: stranger, ...payload });
      assert.deepEqual([status, body], [404, { detail: `Webhook ID ${id} not found.` }], path);
    }
  }
  assert.deepEqual((await t.ask({ url: "/v2/webhooks", key: stranger })).body.resources, []);
});

test("the log shows test messages and redeliveries; a disabled webhook sends neither", async () => {
  const { body: webhook } = await create({ url });
  const at = `/v2/webhooks/${webhook.id}`;
  const ids: string[] = [];
  for (let i = 0; i < 3; i += 1) {
    const { status, body } = await t.ask({ method: "POST", url: `${at}/test` });
    assert.deepEqual([status, body.status, body.type, body.event_id], [202, "pending", "webhook.test", null]);
    assert.deepEqual(body.payload.data, { webhook_id: webhook.id });
    ids.unshift(body.id);
  }
  const first = await t.ask({ url: `${at}/deliveries?page_size=2` });
  const second = await t.ask({ url: `${at}/deliveries?page_size=2&cursor=${first.body.next_cursor}` });
  assert.deepEqual(
    [...first.body.items, ...second.body.items].map(({ id }) => id),
    ids,
  );
  assert.equal(second.body.next_cursor, null);
  assert.deepEqual((await t.ask({ url: `${at}/deliveries?status=failed` })).body.items, []);
  assert.equal((await t.ask({ url: `${at}/deliveries?cursor=x` })).status, 400);
  await t.db.query(sql`update webhook_deliveries set status = 'failed', attempts = 13, error = 'x', next_attempt_at = null
             where id = ${ids[0]}`);
  const again = await t.ask({ method: "POST", url: `${at}/deliveries/${ids[0]}/redeliver` });
  assert.deepEqual([again.status, again.body.status, again.body.attempts, again.body.error], [202, "pending", 0, null]);
  const missing = await t.ask({ method: "POST", url: `${at}/deliveries/${randomUUID()}/redeliver` });
  assert.equal(missing.status, 404);
  await patch(webhook.id, { enabled: false });
  for (const path of ["/test", `/deliveries/${ids[0]}/redeliver`]) {
    assert.equal(
      (await t.ask({ method: "POST", url: at + path })).body.detail,
      `Webhook ID ${webhook.id} is disabled. Enable it before you send to it.`,
    );
  }
});

test("a workspace has at most 50 webhooks, also when many are created at once", async () => {
  const key = t.stranger.adminKey;
  const answers = await Promise.all(Array.from({ length: 55 }, () => create({ url }, { key })));
  assert.equal(answers.filter(({ status }) => status === 201).length, 50);
  assert.equal(answers.find(({ status }) => status === 400)?.body.detail, "A workspace has at most 50 webhooks.");
});

test("sends people the alerts by default, and mail only where the server has a mail server", async () => {
  const slack = await create({ url: "https://hooks.example.org/services/x", format: "slack" });
  assert.deepEqual([slack.body.format, slack.body.types], ["slack", ["alert.firing", "alert.resolved"]]);
  assert.equal((await patch(slack.body.id, { url: "https://hooks.example.org/y" })).body.format, "slack");
  assert.equal((await patch(slack.body.id, { format: "standard" })).body.format, "standard");
  const mail = await create({ url: "mailto:ops@example.org" });
  assert.deepEqual([mail.status, /PIERHEAD_SMTP_URL/.test(JSON.stringify(mail.body))], [400, true]);
  const two = await create({ url: "mailto:ops@example.org,b@example.org" });
  assert.deepEqual([two.status, /one address/.test(JSON.stringify(two.body))], [400, true]);
});
