import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { test } from "node:test";
import type { CodeHost } from "../../src/contract/integrations/integration.ts";
import { createGithubApp } from "../../src/integrations/github-app.ts";
import { readHostEvents } from "../../src/integrations/webhook-event.ts";
import { isSigned } from "../../src/integrations/webhook-signature.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "../api/harness.ts";
import { appId, privateKeyPem, webhookSecret } from "./github-server.ts";
import { pushOf, recorded } from "./recorded-messages.ts";

const app = createGithubApp({
  appId,
  privateKey: privateKeyPem,
  webhookSecret,
  webUrl: "http://127.0.0.1:1",
  client: null,
  allowPrivateNetwork: true,
});
const t = await startApi({}, { github: app });

const sign = (body: Buffer, secret = webhookSecret) =>
  `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;

function send(payload: unknown, headers: Record<string, string> = {}) {
  const body = Buffer.isBuffer(payload) ? payload : Buffer.from(JSON.stringify(payload));
  return t.ask({
    ...{ method: "POST", url: "/v1/integrations/github/webhook", key: null, payload: body },
    headers: {
      "content-type": "application/json",
      "x-github-event": "push",
      "x-github-delivery": randomUUID(),
      "x-hub-signature-256": sign(body),
      ...headers,
    },
  });
}

/** Returns a deployment whose branch was just polled. */
async function followed(
  repository: string,
  more: { tenant?: typeof t.tenant; integrationId?: string } = {},
): Promise<string> {
  const tenant = more.tenant ?? t.tenant;
  const { status, body } = await t.ask({
    ...{ method: "POST", url: "/v2/deployments", key: tenant.adminKey },
    payload: {
      ...{ name: randomUUID(), source: "github" },
      source_config: {
        ...{ repo_url: `https://github.com/${repository}`, build_on_push: true },
        integration_id: more.integrationId ?? null,
      },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    },
  });
  assert.equal(status, 201);
  await t.db.query(sql`insert into branch_watches (deployment_id, tenant_id, repo_key, ref, commit_sha, look_at)
    values (${body.id}, ${tenant.tenantId}, ${`github.com/${repository}`}, 'main', ${`${"0".repeat(39)}1`}, now() + interval '4 minutes')`);
  return body.id;
}

async function watchOf(id: string) {
  const { rows } = await t.db.query<{ message_count: number; pushed: string[]; is_due: boolean }>(sql`
    select told as message_count, pushed, look_at <= now() as is_due from branch_watches where deployment_id = ${id}`);
  return rows[0];
}

test("schedules a poll of the pushed branch and answers a signed push long before the host times out", async () => {
  const [mine, other] = [await followed("acme/one"), await followed("acme/two")];
  const began = performance.now();
  const { status, body } = await send(pushOf("acme/one", "main", "a".repeat(40)));
  // GitHub times out after 10 s. On an idle machine the answer takes about 20 ms.
  assert.ok(performance.now() - began < 9_000);
  assert.deepEqual([status, body], [202, { status: "accepted" }]);
  assert.deepEqual(await watchOf(mine), { message_count: 1, pushed: ["a".repeat(40)], is_due: true });
  assert.deepEqual(await watchOf(other), { message_count: 0, pushed: [], is_due: false });
  await send(pushOf("acme/one", "other", "b".repeat(40)));
  assert.equal((await watchOf(mine))?.message_count, 1, "a push to another branch does not count");
});

test("rejects forged, unsigned and altered messages and changes nothing", async () => {
  const id = await followed("acme/forged");
  const payload = pushOf("acme/forged", "main", "a".repeat(40));
  const body = Buffer.from(JSON.stringify(payload));
  for (const signature of [
    "",
    "sha256=",
    `sha256=${"0".repeat(64)}`,
    sign(body, "another"),
    sign(Buffer.from("{}")),
    sign(body).slice(7),
  ]) {
    const { status, headers } = await send(payload, { "x-hub-signature-256": signature });
    assert.deepEqual([status, headers["x-pierhead-error"]], [403, "webhookUnsigned"], signature);
  }
  const unknown = await t.ask({
    method: "POST",
    url: `/v1/integrations/${randomUUID()}/webhook`,
    key: null,
    payload: "{}",
  });
  assert.equal(unknown.status, 403);
  assert.equal((await watchOf(id))?.message_count, 0);
});

test("counts a replayed message once, even with another delivery id", async () => {
  const id = await followed("acme/replay");
  const payload = pushOf("acme/replay", "main", "c".repeat(40));
  const first = randomUUID();
  assert.equal((await send(payload, { "x-github-delivery": first })).body.status, "accepted");
  for (const delivery of [first, first, randomUUID()]) {
    assert.deepEqual((await send(payload, { "x-github-delivery": delivery })).body, { status: "repeated" });
  }
  assert.equal((await watchOf(id))?.message_count, 1);
});

test("rejects a body of 25 MB before parsing it", async () => {
  const { status } = await send(Buffer.alloc(25 * 1024 * 1024, "x"));
  assert.equal(status, 413);
});

test("ignores tags, new and deleted branches, other events and malformed bodies", async () => {
  const id = await followed("acme/quiet");
  const zero = "0".repeat(40);
  const push = pushOf("acme/quiet", "main", "a".repeat(40));
  for (const payload of [
    { ...push, ref: "refs/tags/main" },
    { ...push, before: zero, created: true },
    { ...push, after: zero, deleted: true },
    { ...push, ref: null },
    { ...push, repository: null },
    { zen: "Keep it logically awesome." },
    [],
    Buffer.from("not json"),
    Buffer.from('{"__proto__": {"ref": "refs/heads/main"}}'),
  ]) {
    const { status, body } = await send(payload);
    assert.equal(status, 202);
    assert.ok(["ignored", "accepted"].includes(body.status));
  }
  assert.equal((await watchOf(id))?.message_count, 0);
});

test("combines 100 pushes into one poll that knows all their commits", async () => {
  const id = await followed("acme/busy");
  const shas = Array.from({ length: 100 }, (_, at) => at.toString(16).padStart(40, "d"));
  const answers = await Promise.all(shas.map((sha) => send(pushOf("acme/busy", "main", sha))));
  assert.ok(answers.every(({ body }) => body.status === "accepted"));
  const watch = await watchOf(id);
  assert.deepEqual([watch?.message_count, watch?.pushed.toSorted()], [100, shas.toSorted()]);
});

test("accepts an integration's secret only for the deployments of that integration", async () => {
  const make = async (tenant = t.tenant) => {
    const payload = { host: "github", name: "x", url: "https://github.com/acme", token: "t" };
    return (await t.ask({ method: "POST", url: "/v2/integrations", payload, key: tenant.adminKey })).body;
  };
  const [mine, theirs] = [await make(), await make(t.stranger)];
  const own = await followed("acme/shared", { integrationId: mine.id });
  const foreign = await followed("acme/shared", { tenant: t.stranger, integrationId: theirs.id });
  const body = Buffer.from(JSON.stringify(pushOf("acme/shared", "main", "e".repeat(40))));
  const tell = (id: string, secret: string) =>
    t.ask({
      ...{ method: "POST", url: `/v1/integrations/${id}/webhook`, key: null, payload: body },
      headers: { "x-github-event": "push", "x-hub-signature-256": sign(body, secret) },
    });
  assert.equal((await tell(theirs.id, mine.webhook_secret)).status, 403);
  assert.equal((await tell(mine.id, mine.webhook_secret)).status, 202);
  assert.deepEqual([(await watchOf(own))?.message_count, (await watchOf(foreign))?.message_count], [1, 0]);
});

for (const { name, host, headers, payload, expected } of recorded) {
  test(`reads a recorded message (${name})`, async () => {
    const body = Buffer.from(typeof payload === "string" ? payload : JSON.stringify(payload));
    assert.deepEqual(readHostEvents(host as CodeHost, headers, body), expected);
    if (host === "github") return;
    const made = await t.ask({
      ...{ method: "POST", url: "/v2/integrations" },
      payload: { host, name, url: "https://git.example.org", token: "t" },
    });
    const { id, webhook_secret: secret } = made.body;
    const proof: Record<string, Record<string, string>> = {
      gitlab: { "x-gitlab-token": secret },
      gitea: { "x-gitea-signature": sign(body, secret).slice(7) },
      bitbucket: { "x-hub-signature": sign(body, secret) },
    };
    const url = `/v1/integrations/${id}/webhook`;
    const told = (more: Record<string, string> = {}) =>
      t.ask({ method: "POST", url, key: null, payload: body, headers: { ...headers, ...more } });
    assert.equal((await told()).status, 403);
    assert.equal((await told(proof[host])).body.status, expected.length === 0 ? "ignored" : "accepted");
  });
}

/** Returns headers with a signature according to Standard Webhooks 1.0. */
const signed = (body: Buffer | string, secret: string, { id = "msg_1", atS = Math.floor(Date.now() / 1_000) } = {}) => {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${atS}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": String(atS), "webhook-signature": `v1,${signature}` };
};

test("accepts the specification's example of a signed message and rejects altered ones", () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const body = Buffer.from('{"test": 2432232314}');
  const headers = {
    ...{ "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330" },
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  const nowMs = 1_614_265_330_000;
  const holds = (
    more: object = {},
    asked: { host?: CodeHost; body?: Buffer; secret?: string; nowMs?: number } = {},
  ) => {
    const { host = "gitlab", secret: key = secret } = asked;
    return isSigned(host, { ...headers, ...more }, asked.body ?? body, key, asked.nowMs ?? nowMs);
  };
  assert.ok(holds());
  assert.ok(
    holds({ "webhook-signature": `v1,AAAA v1a,BBBB ${headers["webhook-signature"]}` }),
    "one of several signatures",
  );
  assert.ok(holds({}, { nowMs: nowMs + 299_000 }) && holds({}, { nowMs: nowMs - 299_000 }));
  for (const [more, asked] of [
    [{}, { nowMs: nowMs + 301_000 }],
    [{}, { nowMs: nowMs - 301_000 }],
    [{}, { body: Buffer.from('{"test": 2432232315}') }],
    [{}, { secret: `whsec_${Buffer.alloc(24, 7).toString("base64")}` }],
    [{}, { secret: secret.slice(6) }],
    [{}, { secret: "" }],
    [{}, { host: "github" }],
    [{ "webhook-id": "msg_other" }, {}],
    [{ "webhook-id": undefined }, {}],
    [{ "webhook-timestamp": "1614265331" }, {}],
    [{ "webhook-timestamp": "1614265330.0" }, {}],
    [{ "webhook-timestamp": "NaN" }, {}],
    [{ "webhook-signature": "v1," }, {}],
    [{ "webhook-signature": headers["webhook-signature"].replace("v1,", "v2,") }, {}],
  ] as const) {
    assert.equal(holds(more, asked), false, JSON.stringify([more, asked]));
  }
});

test("accepts GitLab messages signed with a generated or a chosen secret, or with the secret in a header", async () => {
  const payload = { host: "gitlab", name: "gitlab", url: "https://git.example.org", token: "t" };
  const made = (await t.ask({ method: "POST", url: "/v2/integrations", payload })).body;
  const { payload: push } = recorded.find(({ name }) => name === "GitLab: a push") ?? {};
  const body = Buffer.from(JSON.stringify(push));
  const tell = (headers: Record<string, string>, sent = body) =>
    t.ask({ method: "POST", url: `/v1/integrations/${made.id}/webhook`, key: null, payload: sent, headers });
  const [other = body, third = body, fourth = body] = [1, 2, 3].map((more) =>
    Buffer.from(JSON.stringify({ ...(push as object), more })),
  );
  assert.equal((await tell(signed(other, made.webhook_secret))).status, 403, "signed for another body");
  assert.equal((await tell(signed(body, made.webhook_secret, { atS: 1_614_265_330 }))).status, 403, "signed years ago");
  assert.equal((await tell(signed(body, made.webhook_secret))).body.status, "accepted");
  assert.equal((await tell(signed(body, made.webhook_secret))).body.status, "repeated");
  assert.equal((await tell(signed(other, made.webhook_secret), other)).body.status, "repeated", "a known message id");
  assert.equal((await tell({ "x-gitlab-token": made.webhook_secret }, third)).body.status, "accepted");

  const own = `whsec_${Buffer.alloc(32, 9).toString("base64")}`;
  const url = `/v2/integrations/${made.id}/webhook-secret`;
  assert.equal((await t.ask({ method: "POST", url, payload: { webhook_secret: "short" } })).status, 422);
  assert.equal((await t.ask({ method: "POST", url, payload: { webhook_secret: own } })).body.webhook_secret, own);
  assert.equal(
    (await tell(signed(fourth, made.webhook_secret, { id: "msg_2" }), fourth)).status,
    403,
    "signed with the previous secret",
  );
  assert.equal((await tell(signed(fourth, own, { id: "msg_2" }), fourth)).body.status, "accepted");
});
