import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { InjectOptions } from "fastify";
import { actWords } from "../../console/src/parts/audit-words.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { operations } from "../../src/contract/operations.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { type Ask, auditedCalls, type Prepared } from "../support/audited-calls.ts";
import { deploymentNowhere } from "../support/call-api.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const operatorKey = await t.mintKey({ isOperator: true });
const admin = "/v2/admin";
const ask: Ask = async (method, url, payload) => {
  const answer = await t.ask({ method, url, key: operatorKey, ...(payload !== undefined && { payload }) });
  assert.ok(answer.status < 300, `${method} ${url}: ${answer.text}`);
  return answer.body;
};

const newDeployment = () => ask("POST", "/v2/deployments", { ...deploymentNowhere, name: randomUUID() });
const newWorkspace = () => ask("POST", `${admin}/workspaces`, { name: randomUUID() });

const rowsSince = async (id: number) => {
  const { rows } = await t.db.query<{ id: number; actor: string; action: string }>(sql`
    select id, actor, action from audit_log where id > ${id} order by id`);
  return rows;
};
const lastRow = async () => (await rowsSince(0)).at(-1)?.id ?? 0;

for (const { id, verb } of Object.values<Operation>(operations).filter((one) => one.id in auditedCalls)) {
  test(`${id} writes exactly one row that names the actor`, async () => {
    const [url, action, payload] = await (auditedCalls[id] as (ask: Ask) => Promise<Prepared>)(ask);
    const before = await lastRow();
    const call: InjectOptions = { method: verb as "POST", url, ...(payload !== undefined && { payload }) };
    const answer = await t.ask({ ...call, key: operatorKey });
    assert.ok(answer.status < 300, answer.text);
    const rows = await rowsSince(before);
    assert.deepEqual(
      rows.map((row) => row.action),
      [action],
    );
    assert.match(rows[0]?.actor ?? "", /^key:[0-9a-f-]{36}$/);
    assert.match(actWords(action), /^(\w+ed|made|sent)\b/, "the console has a sentence for the action");
    if (verb !== "PATCH" && verb !== "PUT") return;
    await t.ask({ ...call, key: operatorKey });
    assert.equal((await rowsSince(before)).length, 1, "a repeated call changes nothing and writes nothing");
  });
}

test("writes nothing for a refused call", async () => {
  const before = await lastRow();
  const { id } = await newWorkspace();
  const readerKey = await t.mintKey({ role: "reader" });
  await t.ask({
    method: "POST",
    url: "/v2/deployments",
    payload: { ...deploymentNowhere, name: "refused" },
    key: readerKey,
  });
  await t.ask({ method: "PATCH", url: `${admin}/workspaces/${id}`, payload: { name: " " }, key: operatorKey });
  await t.ask({ method: "DELETE", url: `${admin}/members/${randomUUID()}`, key: operatorKey });
  assert.equal((await rowsSince(before)).length, 1, "only the row of the workspace");
});

const entriesOf = async (query: string, key = operatorKey) =>
  (await t.ask({ url: `${admin}/audit-log?${query}`, key })).body.items;

test("records each field before and after a change, secrets only by name, and the new revision", async () => {
  const payload = {
    ...deploymentNowhere,
    name: "shown",
    secrets: [
      { name: "OLD", value: "sk-old" },
      { name: "KEPT", value: "sk-1" },
    ],
  };
  const { id } = await ask("POST", "/v2/deployments", payload);
  const patched = await ask("PATCH", `/v2/deployments/${id}`, {
    source_config: { build_on_push: false },
    secrets: [
      { name: "KEPT", value: "sk-2" },
      { name: "NEW", value: "sk-new" },
    ],
  });
  const [entry, created] = await entriesOf(`deployment_id=${id}`);
  assert.deepEqual(entry.changes, { "source_config.build_on_push": { before: true, after: false } });
  assert.deepEqual(entry.secrets, { added: ["NEW"], removed: ["OLD"], changed: ["KEPT"] });
  assert.equal(entry.details.revision_id, patched.latest_revision_id);
  assert.deepEqual(
    [entry.subject_name, entry.workspace_id, entry.organization_id, entry.actor_name],
    [payload.name, t.tenant.tenantId, t.tenant.organizationId, "test"],
  );
  assert.deepEqual([created.action, created.secrets], ["deployment.create", null]);
  assert.ok(!JSON.stringify([entry, created]).includes("sk-"));
});

test("a search for words in a long log ends in time, and its pages lead to the oldest entry", async () => {
  const { id } = await newWorkspace();
  const { rows } = await t.db.query<{ organization_id: string }>(sql`
    select organization_id from workspaces where id = ${id}`);
  await t.db.query(sql`
    insert into audit_log (organization_id, tenant_id, actor, action, subject_name, data)
    select ${rows[0]?.organization_id}, ${id}, 'key:none', 'agent.call', case number when 1 then 'needle' else 'support' end, '{}'
      from generate_series(1, 30000) number order by number`);
  const page = (cursor: string) =>
    t.ask({ url: `${admin}/audit-log?workspace_id=${id}&text=needle&cursor=${cursor}`, key: operatorKey });
  const first = (await page("")).body;
  assert.deepEqual([first.items, typeof first.next_cursor], [[], "string"], "one request reads a part of the log");
  const found = [];
  for (let cursor = first.next_cursor; cursor !== null; ) {
    const { items, next_cursor } = (await page(cursor)).body;
    found.push(...items);
    cursor = next_cursor;
  }
  assert.deepEqual(
    found.map((entry: { subject_name: string }) => entry.subject_name),
    ["needle"],
  );
  await t.db.query(sql`delete from audit_log where tenant_id = ${id}`);
});

test("filters narrow the log, and pages follow newest first without gaps or repetitions", async () => {
  const { id } = await newDeployment();
  for (const name of ["a", "b", "c", "d"]) await ask("PATCH", `/v2/deployments/${id}`, { display_name: name });
  const seen: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: { items: { id: string }[]; next_cursor: string | null } = (
      await t.ask({ url: `${admin}/audit-log?deployment_id=${id}&page_size=2&cursor=${cursor}`, key: operatorKey })
    ).body;
    seen.push(...page.items.map((item) => item.id));
    cursor = page.next_cursor;
  }
  assert.equal(seen.length, 5);
  assert.deepEqual(
    seen,
    [...new Set(seen)].sort((a, b) => Number(b) - Number(a)),
  );

  const actions = async (query: string) =>
    (await entriesOf(`deployment_id=${id}&${query}`)).map(({ action }: { action: string }) => action);
  assert.equal((await actions("action=deployment")).length, 5);
  assert.deepEqual(await actions("action=deployment.create"), ["deployment.create"]);
  assert.deepEqual(await actions("action=deploy"), []);
  assert.deepEqual(await actions("actor=unknown-actor"), []);
  const [{ actor, created_at }] = await entriesOf(`deployment_id=${id}`);
  const found = async (text: string) => (await actions(`text=${encodeURIComponent(text)}`)).length;
  assert.deepEqual(
    [
      await found('"b"'),
      await found("DISPLAY_name"),
      await found("test patch"),
      await found("test nowhere"),
      await found("%"),
    ],
    [2, 4, 4, 0, 0],
    "a value, a field, the name of the key with a word of the action, no such word, and no pattern",
  );
  assert.equal((await actions(`actor=${actor}`)).length, 5);
  assert.deepEqual(await actions("until=2001-01-01T00:00:00Z"), []);
  assert.ok((await actions(`since=${created_at}`)).length >= 1);
  const broken = await t.ask({ url: `${admin}/audit-log?cursor=x`, key: operatorKey });
  assert.deepEqual([broken.status, /cursor/.test(broken.body.detail)], [400, true]);
});

test("hides changes of other tenants, and those of the organization from a workspace key", async () => {
  const { id } = await newDeployment();
  await ask("POST", `${admin}/organizations`, { name: "other" });
  const organizationKey = await t.mintKey({ isOrganizational: true });
  const scopeOf = async (key: string) => {
    const entries = await entriesOf("page_size=100", key);
    return {
      organizations: new Set(entries.map((one: { organization_id: string }) => one.organization_id)).size,
      workspaces: new Set(entries.map((one: { workspace_id: string | null }) => one.workspace_id)),
    };
  };
  assert.deepEqual(await scopeOf(t.tenant.adminKey), { organizations: 1, workspaces: new Set([t.tenant.tenantId]) });
  const ofOrganization = await scopeOf(organizationKey);
  assert.deepEqual([ofOrganization.organizations, ofOrganization.workspaces.size > 2], [1, true]);
  assert.ok((await scopeOf(operatorKey)).organizations > 1);
  assert.deepEqual(await entriesOf(`deployment_id=${id}`, t.stranger.adminKey), []);
  for (const role of ["reader", "deployer"] as const) {
    const answer = await t.ask({ url: `${admin}/audit-log`, key: await t.mintKey({ role }) });
    assert.equal(answer.status, 403);
  }
});

test("commits a change and its audit row in one transaction", async () => {
  const { id } = await newDeployment();
  const workspace = await newWorkspace();
  await ask("PATCH", `${admin}/workspaces/${workspace.id}`, { name: randomUUID() });
  const key = await ask("POST", `${admin}/api-keys`, { name: "ci", role: "deployer" });
  for (const [table, subject] of [
    ["deployments", id],
    ["workspaces", workspace.id],
    ["api_keys", key.id],
  ]) {
    const { rows } = await t.db.query<{ same: boolean }>(sql`
      select a.xmin::text = x.xmin::text as same from ${sql.identifier(table)} x join audit_log a on a.subject_id = x.id
       where x.id = ${subject} order by a.id desc limit 1`);
    assert.deepEqual(rows, [{ same: true }], table);
  }
});
