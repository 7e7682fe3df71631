import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { createKeyring } from "../../src/auth/keyring.ts";
import { takesIdempotencyKey } from "../../src/contract/operation.ts";
import { operations } from "../../src/contract/operations.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { trimOlder } from "../../src/store/maintenance/retention.ts";
import { savedResponseDays } from "../../src/store/tenants/idempotency-keys.ts";
import { eachDatabase } from "../support/database.ts";
import { type Answer, startApi, startApiOn, type TestApi } from "./harness.ts";

const t = await startApi();

/** Pairs of equal requests on each database. CI sets `PIERHEAD_TEST_PAIRS=5000`, which takes about two minutes. */
const pairs = Number(process.env["PIERHEAD_TEST_PAIRS"] ?? 240);

const image = (name: string, tag = "1") => ({
  name,
  source: "external_docker",
  source_config: { resource_spec: {} },
  source_revision_config: { image_uri: `registry.example/team/agent:${tag}` },
  secrets: [{ name: "TOKEN", value: "sk-canary" }],
});

type Sent = { method?: "POST" | "PATCH" | "DELETE"; url: string; payload?: object; under?: string };

function send(api: TestApi, { method = "POST", url, payload, under }: Sent): Promise<Answer> {
  const headers = under === undefined ? {} : { "idempotency-key": under };
  return api.ask({ method, url, headers, ...(payload && { payload }) });
}

/** Counts of the workspace's rows, which a request that ran twice would leave twice. */
async function effects(api: TestApi): Promise<Record<string, number>> {
  const { rows } = await api.db.query<Record<string, number>>(sql`
    select (select count(*) from deployments) as deployments, (select count(*) from revisions) as revisions,
           (select count(*) from audit_log where actor like 'key:%') as audited, (select count(*) from uploads) as uploads,
           (select sum(generation)::int from reconcile_queue) as passes`);
  return rows[0] as Record<string, number>;
}

const shown = ({ status, text }: Answer) => [status, text];

test("every changing operation can be retried under its key and changes once", async () => {
  const { body: made } = await send(t, { url: "/v2/deployments", payload: image("operations") });
  const at = `/v2/deployments/${made.id}`;
  const archive = await send(t, { url: "/v2/deployments", payload: { ...internal, name: "operations-archive" } });
  const revisionAt = async () => `${at}/revisions/${(await t.ask({ url: at })).body.latest_revision_id}`;
  const calls: Record<string, () => Promise<Sent> | Sent> = {
    createDeployment: () => ({ url: "/v2/deployments", payload: image("operations-again") }),
    patchDeployment: () => ({ method: "PATCH", url: at, payload: { source_revision_config: { image_uri: "a/b:2" } } }),
    createUploadUrl: () => ({ url: `/v2/deployments/${archive.body.id}/upload-url` }),
    createRevision: () => ({ url: `${at}/revisions`, payload: {} }),
    interruptRevision: async () => ({ url: `${await revisionAt()}/interrupt` }),
    redeployRevision: async () => ({ url: `${await revisionAt()}/redeploy` }),
    interruptRevisionAlias: async () => ({ url: `${await revisionAt()}/interruption` }),
    deleteDeployment: () => ({ method: "DELETE", url: at }),
  };
  for (const [id, callOf] of Object.entries(calls)) {
    const call = { ...(await callOf()), under: randomUUID() };
    const first = await send(t, call);
    assert.ok(first.status < 300, `${id}: ${first.text}`);
    const before = await effects(t);
    const second = await send(t, call);
    assert.deepEqual([...shown(second), second.headers["etag"]], [...shown(first), first.headers["etag"]], id);
    assert.equal(second.headers["idempotency-replayed"], "true", id);
    assert.equal(second.headers["content-type"], first.headers["content-type"], id);
    assert.deepEqual(await effects(t), before, id);
    const other = await send(t, { url: "/v2/deployments", payload: image("another"), under: call.under });
    assert.deepEqual(
      [other.status, other.body.detail],
      [409, "This Idempotency-Key was used for a different request."],
    );
    assert.deepEqual(await effects(t), before, id);
  }
});

const internal = { source: "internal_source", source_config: {}, source_revision_config: {} };

test("the document promises the header for every changing operation and for no other", async () => {
  const { body: document } = await t.ask({ url: "/openapi.json" });
  for (const operation of Object.values(operations).filter(({ audience }) => audience === "public")) {
    const { parameters = [], responses } = document.paths[operation.path][operation.verb.toLowerCase()];
    const names = parameters.map((one: { name?: string }) => one.name);
    assert.equal(names.includes("Idempotency-Key"), takesIdempotencyKey(operation), operation.id);
    if (takesIdempotencyKey(operation)) assert.match(responses[409].description, /idempotencyKeyReused/, operation.id);
  }
});

test("a key belongs to its workspace", async () => {
  const sent = { method: "POST", url: "/v2/deployments", headers: { "idempotency-key": "shared" } } as const;
  const ours = await t.ask({ ...sent, payload: image("ours") });
  const theirs = await t.ask({ ...sent, payload: image("theirs"), key: t.stranger.adminKey });
  assert.deepEqual([ours.status, theirs.status], [201, 201]);
  assert.notEqual(ours.body.id, theirs.body.id);
});

test("key order, whitespace and unknown keys do not make a different request", async () => {
  const under = randomUUID();
  const { name, source, ...rest } = image("spelling");
  const first = await send(t, { url: "/v2/deployments", payload: { name, source, ...rest }, under });
  const second = await send(t, { url: "/v2/deployments/", payload: { ...rest, unknown: 1, source, name }, under });
  assert.deepEqual(shown(second), shown(first));
});

test("a refusal is not saved: the same request runs again once its cause is gone", async () => {
  const under = randomUUID();
  const { body: made } = await send(t, { url: "/v2/deployments", payload: image("taken") });
  const refused = await send(t, { url: "/v2/deployments", payload: image("taken"), under });
  assert.equal(refused.status, 409);
  await t.db.query(sql`update deployments set name = 'freed' where id = ${made.id}`);
  assert.equal((await send(t, { url: "/v2/deployments", payload: image("taken"), under })).status, 201);
});

test("rejects an empty key and one longer than 255 characters with a clear text", async () => {
  for (const [under, type] of [
    ["", "string_too_short"],
    ["k".repeat(256), "string_too_long"],
  ] as const) {
    const { status, body } = await send(t, { url: "/v2/deployments", payload: image("never"), under });
    assert.deepEqual([status, body.detail[0].type, body.detail[0].loc], [422, type, ["header", "idempotency-key"]]);
  }
  assert.equal((await send(t, { url: "/v2/deployments", payload: image("k255"), under: "k".repeat(255) })).status, 201);
});

test("a saved response is encrypted and deleted after a day", async () => {
  const under = "kept";
  const first = await send(t, { url: "/v2/deployments", payload: image("kept"), under });
  assert.match(first.text, /sk-canary/);
  const { rows } = await t.db.query<{ row: string; sealed: Buffer }>(sql`
    select k::text as row, sealed from idempotency_keys k where key = ${under}`);
  assert.ok(rows[0] && !`${rows[0].row}${rows[0].sealed.toString("latin1")}`.includes("canary"));
  const trim = () => trimOlder(t.db, "idempotency_keys", { days: savedResponseDays }, new AbortController().signal);
  await trim();
  assert.equal((await send(t, { url: "/v2/deployments", payload: image("kept"), under })).status, 201);
  await t.db.query(sql`update idempotency_keys set created_at = now() - interval '25 hours' where key = ${under}`);
  assert.equal(savedResponseDays, 1);
  assert.equal(await trim(), 1);
  assert.equal((await send(t, { url: "/v2/deployments", payload: image("kept"), under })).status, 409);
});

eachDatabase(
  `${pairs} pairs of equal requests, in turn and at once, have one effect and one answer each`,
  async (db) => {
    const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-pairs-"));
    const api = await startApiOn(db, { dataDir });
    try {
      await sendPairs(api);
    } finally {
      await api.api.close();
      api.deps.sealer.close();
      await rm(dataDir, { recursive: true, force: true });
    }
  },
);

/** One create and eleven changes of it, a realistic mix; every third pair runs in sequence. */
async function sendPairs(api: TestApi): Promise<void> {
  const expected = await effects(api);
  const deployments: string[] = [];
  const make = async (number: number) => {
    const { status, body } = await sendTwice(api, number, { url: "/v2/deployments", payload: image(`pair-${number}`) });
    assert.equal(status, 201);
    deployments.push(body.id);
    expected["deployments"] = (expected["deployments"] ?? 0) + 1;
  };
  const change = async (number: number) => {
    const at = `/v2/deployments/${deployments[number % deployments.length]}`;
    const calls: Sent[] = [
      { method: "PATCH", url: at, payload: { source_revision_config: { image_uri: `a/b:${number}` } } },
      { method: "PATCH", url: at, payload: { secrets: [{ name: "TOKEN", value: `sk-${number}` }] } },
      { url: `${at}/revisions`, payload: {} },
    ];
    const { status } = await sendTwice(api, number, calls[number % calls.length] as Sent);
    assert.ok(status === 200 || status === 201);
  };
  const lanes = 8;
  await Promise.all(Array.from({ length: lanes }, (_, lane) => make(lane)));
  await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      for (let number = lanes + lane; number < pairs; number += lanes)
        await (number % 12 === 0 ? make : change)(number);
    }),
  );
  const { revisions, audited, passes, deployments: made } = await effects(api);
  const total = Math.max(pairs, lanes);
  assert.deepEqual(
    { revisions, audited, passes, made },
    { revisions: total, audited: total, passes: total, made: expected["deployments"] },
  );
}

async function sendTwice(api: TestApi, number: number, call: Sent): Promise<Answer> {
  const again = { ...call, under: randomUUID() };
  const [first, second] =
    number % 3 === 0
      ? [await send(api, again), await send(api, again)]
      : await Promise.all([send(api, again), send(api, again)]);
  assert.deepEqual(shown(second), shown(first));
  return first;
}

test("concurrent reads do not block a request that runs as a unit", async () => {
  const keyring = createKeyring(t.db, t.deps.logger);
  const entered = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const ofOthers = entered.promise.then(() => {
    const reading = keyring.findWorkspace(t.tenant.tenantId);
    begun.resolve();
    return reading;
  });
  const inside = await t.db.atomically(async () => {
    entered.resolve();
    await begun.promise;
    return keyring.findWorkspace(t.tenant.tenantId);
  });
  assert.deepEqual([inside?.id, (await ofOthers)?.id], [t.tenant.tenantId, t.tenant.tenantId]);
});
