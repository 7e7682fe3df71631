import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const stranger = t.stranger.adminKey;

const shapes = {
  github: {
    source_config: { repo_url: "https://github.com/acme/bot", deployment_type: "dev", build_on_push: true },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
  },
  internal_docker: { source_config: { deployment_type: "dev" }, source_revision_config: {} },
  internal_source: { source_config: {}, source_revision_config: {} },
  external_docker: {
    source_config: { resource_spec: {} },
    source_revision_config: { image_uri: "registry.example.org/acme/bot:1.0" },
  },
};
const bodyOf = (source: keyof typeof shapes, name: string, more: object = {}) => ({
  name,
  source,
  ...shapes[source],
  ...more,
});
const create = (body: object, more: object = {}) =>
  t.ask({ method: "POST", url: "/v2/deployments", payload: body, ...more });
const patch = (id: string, payload: object) => t.ask({ method: "PATCH", url: `/v2/deployments/${id}`, payload });
const names = async (query: string) =>
  (await t.ask({ url: `/v2/deployments?${query}` })).body.resources.map((one: { name: string }) => one.name);

test("creates a deployment with its first revision, unless its image or archive comes later", async () => {
  for (const source of Object.keys(shapes) as (keyof typeof shapes)[]) {
    const { status, body } = await create(bodyOf(source, `first-${source.replace("_", "-")}`));
    assert.equal(status, 201, JSON.stringify(body));
    assert.equal(body.latest_revision_id === null, source.startsWith("internal"));
    assert.equal(body.status, "AWAITING_DATABASE");
    assert.equal(body.tenant_id, t.tenant.tenantId);
    assert.equal(body.url, body.source_config.custom_url);
    assert.match(body.url, /\/d\/first-[a-z-]+-[0-9a-f]{8}$/);
    const read = await t.ask({ url: `/v2/deployments/${body.id}` });
    assert.deepEqual(read.body, body);
  }
});

test("an image's own address can be removed again, and reading it does not create one", async () => {
  const { body: made } = await create(bodyOf("external_docker", "addressed"));
  const read = async () => (await t.ask({ url: `/v2/deployments/${made.id}` })).body;
  const stored = async () => {
    const { rows } = await t.db.query<{ url: string | null }>(sql`
      select source_config ->> 'custom_url' as url from deployments where id = ${made.id}`);
    return rows[0]?.url;
  };
  const { custom_url } = made.source_config;
  await patch(made.id, { display_name: "Addressed", source_config: { custom_url } });
  assert.deepEqual([(await read()).url, await stored()], [made.url, null], "sent back as it was read");
  const own = "https://agents.example.org/desk";
  assert.equal((await patch(made.id, { source_config: { custom_url: own } })).body.url, own);
  assert.equal((await patch(made.id, { source_config: { custom_url: null } })).body.url, own);
  const cleared = await patch(made.id, { source_config: { custom_url: "" } });
  assert.deepEqual([cleared.status, cleared.body.url, await stored()], [200, made.url, null]);
  assert.equal(cleared.body.source_config.custom_url, made.url);
  assert.equal(cleared.body.latest_revision_id, made.latest_revision_id, "no revision");
});

test("responses have every key of the contract, with defaults", async () => {
  const { body } = await create(bodyOf("external_docker", "whole", { secrets: [{ name: "A", value: "1" }] }));
  assert.equal(body.source_config.deployment_type, "prod");
  assert.equal(body.source_config.resource_spec.cpu_limit, 2);
  assert.equal(body.source_config.resource_spec.queue_memory_limit_mb, 4096);
  assert.equal(body.source_revision_config.langgraph_config_path, null);
  assert.ok("framework_config_path" in body.source_revision_config);
  assert.deepEqual(body.secrets, [{ name: "A", value: "1" }]);
  const github = await create(bodyOf("github", "tracked"));
  assert.equal(github.body.source_config.repo_branch, "main");
  assert.equal(github.body.source_config.resource_spec, null);
  assert.equal(github.body.source_revision_config.framework_config_path, "langgraph.json");
});

test("answers 409 for a taken name, also for eight concurrent requests", async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => create(bodyOf("internal_docker", "race"))));
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, ...Array(7).fill(409)]);
  const late = await create(bodyOf("internal_docker", "race"));
  assert.deepEqual(late.body, { detail: "A deployment named 'race' already exists." });
  assert.equal((await create(bodyOf("internal_docker", "race"), { key: stranger })).status, 201);
});

test("replays a create under its idempotency key", async () => {
  const send = (name: string) => create(bodyOf("internal_docker", name), { headers: { "idempotency-key": "k-1" } });
  const answers = await Promise.all([send("again"), send("again"), send("again")]);
  answers.push(await send("again"));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201, 201, 201, 201],
  );
  assert.equal(new Set(answers.map(({ body }) => body.id)).size, 1);
  const other = await send("another");
  assert.deepEqual([other.status, other.body.detail], [409, "This Idempotency-Key was used for a different request."]);
});

for (const agent_id of [randomUUID(), "support-agent"]) {
  test(`in agent mode an agent has one deployment per environment (${agent_id.length === 36 ? "UUID" : "label"})`, async () => {
    const agent = { agent_id, environment: "staging" };
    const made = await create({ ...bodyOf("internal_docker", "x"), name: null, agent });
    assert.equal(made.status, 201);
    assert.deepEqual(made.body.agent, agent);
    const second = await create({ ...bodyOf("internal_docker", `other-name-${agent_id}`), agent });
    assert.deepEqual(
      [second.status, second.body.detail],
      [409, "A deployment already exists for this agent environment."],
    );
    assert.deepEqual(await names(`agent_id=${agent_id}&agent_environment=staging`), [made.body.name]);
    assert.ok((await names("agent_environment=staging")).includes(made.body.name));
  });
}

test("broken rules answer 400 with one sentence", async () => {
  const missing = await create({ ...bodyOf("github", "no-repo"), source_config: { build_on_push: false } });
  assert.deepEqual(
    [missing.status, missing.body],
    [400, { detail: "Source configuration error: 'source_config.repo_url' is required for source 'github'." }],
  );
  const reserved = await create(
    bodyOf("internal_docker", "reserved", { secrets: [{ name: "REDIS_URI", value: "x" }] }),
  );
  assert.equal(reserved.status, 400);
  assert.match(reserved.body.detail, /REDIS_URI/);
});

test("lists are paged, newest first, with an exact name before all others", async () => {
  for (const name of ["page", "page-1", "my-page", "PAGE-2"]) await create(bodyOf("internal_docker", name));
  assert.deepEqual(await names("name_contains=page"), ["page", "PAGE-2", "my-page", "page-1"]);
  assert.deepEqual(await names("name_contains=page&limit=2&offset=1"), ["PAGE-2", "my-page"]);
  assert.deepEqual(await names("name=page-1"), ["page-1"]);
  const { body } = await t.ask({ url: "/v2/deployments?name_contains=page&limit=3&offset=2" });
  assert.deepEqual([body.resources.length, body.offset], [2, 4]);
  assert.deepEqual(await names("name_contains=page%25"), []);
  assert.ok((await names("name_contains=&name=&limit=100")).length > 4);
});

test("a page behind the end of a list is empty, whatever the offset and filter", async () => {
  for (const filter of ["", "name=page-1", "name_contains=page", "name_contains==", "is_remote=true", "status=READY"]) {
    for (const offset of [1_000, 2 ** 31 - 1, Number.MAX_SAFE_INTEGER]) {
      assert.deepEqual(await names(`${filter}&limit=5&offset=${offset}`), [], `${filter} from ${offset}`);
    }
  }
});

test("sorts lists as requested, each order the reverse of the other, page by page", async () => {
  for (const name of ["order-b", "order-c", "order-a"]) await create(bodyOf("github", name));
  const { body } = await t.ask({ url: "/v2/deployments?name=order-c" });
  await patch(body.resources[0].id, { display_name: "changed last" });
  await t.db.query(sql`update deployments set status = 'READY' where name = 'order-a'`);
  await t.db.query(sql`
    update deployments set health = case name when 'order-a' then 'live' when 'order-b' then 'failed' else 'degraded' end
     where name in ('order-a', 'order-b', 'order-c')`);
  for (const [by, usual] of [
    ["name", ["a", "b", "c"]],
    ["created_at", ["a", "c", "b"]],
    ["updated_at", ["c", "a", "b"]],
    ["status", ["c", "b", "a"]],
    ["health", ["c", "b", "a"]],
  ] as const) {
    const wanted = usual.map((one) => `order-${one}`);
    const other = by === "name" || by === "status" || by === "health" ? "desc" : "asc";
    assert.deepEqual(await names(`name_contains=order-&sort_by=${by}`), wanted, by);
    assert.deepEqual(await names(`name_contains=order-&sort_by=${by}&sort_order=${other}`), wanted.toReversed(), by);
    assert.deepEqual(await names(`name_contains=order-&sort_by=${by}&limit=1&offset=1`), wanted.slice(1, 2), by);
  }
  await create(bodyOf("internal_docker", "order-"));
  assert.equal((await names("name_contains=order-&sort_order=asc"))[0], "order-b", "the oldest, not the exact match");
  const bad = await t.ask({ url: "/v2/deployments?sort_by=color&sort_order=up" });
  assert.deepEqual(
    [bad.status, bad.body.detail.map(({ loc, type }: { loc: string[]; type: string }) => [loc[1], type])],
    [
      422,
      [
        ["sort_by", "literal_error"],
        ["sort_order", "literal_error"],
      ],
    ],
  );
});

test("finds a deployment by any text that people know it by, in any case, with an exact name first", async () => {
  const github = await create(bodyOf("github", "texted-git"));
  await create(bodyOf("external_docker", "texted-image"));
  await create(bodyOf("internal_docker", "ledger"));
  await patch(github.body.id, { display_name: "Front Desk" });
  await t.db.query(sql`
    update revisions set commit_message = 'Read the ledger', commit_author = 'Ada Lindqvist' where deployment_id = ${github.body.id}`);
  const found = (text: string) => names(`text_contains=${encodeURIComponent(text)}&limit=100`);
  for (const text of ["TEXTED-G", "front desk", "read the", "ada l"])
    assert.deepEqual(await found(text), ["texted-git"], text);
  assert.deepEqual(await found("ledger"), ["ledger", "texted-git"]);
  for (const text of ["github.com/acme/BOT", "registry.example.org/acme"])
    assert.ok((await found(text)).includes(text.startsWith("g") ? "texted-git" : "texted-image"), text);
  assert.deepEqual(await found("ledger\nAda"), [], "no text reaches over two of them");
  assert.deepEqual(await found("front%desk"), []);
});

test("every filter of the list has an effect", async () => {
  const { body } = await create(bodyOf("github", "filtered"));
  const one = async (query: string) =>
    assert.deepEqual(await names(`name_contains=filtered&${query}`), ["filtered"], query);
  const none = async (query: string) => assert.deepEqual(await names(`name_contains=filtered&${query}`), [], query);
  await one("status=AWAITING_DATABASE");
  await none("status=READY");
  await none("status=NO_SUCH_STATUS");
  await one("remote_reconciled=false");
  await none("remote_reconciled=yes");
  const { rows } = await t.db.query<{ listener_id: string }>(
    sql`select listener_id from deployments where id = ${body.id}`,
  );
  await one(`listener_id=${rows[0]?.listener_id}`);
  await none(`listener_id=${randomUUID()}`);
  await one("deployment_type=dev");
  await none("deployment_type=prod");
  await one(`deployment_ids=${randomUUID()},%20${body.id.toUpperCase()}`);
  await none(`deployment_ids=${randomUUID()}`);
  await one(`url=${encodeURIComponent(body.url)}`);
  await none(`url=${encodeURIComponent(`${body.url}x`)}`);
  await none("image_version=1.0");
  await none(`tag_value_ids=${randomUUID()}`);
  await one("tag_value_ids=");
  const bad = await t.ask({ url: "/v2/deployments?deployment_ids=abc" });
  assert.deepEqual(
    [bad.status, bad.body.detail[0].loc, bad.body.detail[0].type],
    [422, ["query", "deployment_ids"], "uuid_parsing"],
  );
});

test("shows the commit of the latest revision as soon as it is resolved", async () => {
  const { body } = await create(bodyOf("github", "committed"));
  const commitOf = async () => (await t.ask({ url: `/v2/deployments/${body.id}` })).body.source_revision_config;
  assert.equal((await commitOf()).repo_commit_sha, null);
  const sha = "0123456789abcdef0123456789abcdef01234567";
  await t.db.query(sql`update revisions set source_revision_config = source_revision_config || ${JSON.stringify({ repo_commit_sha: sha })}::jsonb
             where id = ${body.latest_revision_id}`);
  assert.equal((await commitOf()).repo_commit_sha, sha);
  const listed = await t.ask({ url: "/v2/deployments?name=committed" });
  assert.equal(listed.body.resources[0].source_revision_config.repo_commit_sha, sha);
  const quiet = await patch(body.id, { display_name: "x" });
  assert.equal(quiet.body.source_revision_config.repo_commit_sha, sha);
  const next = await patch(body.id, { source_revision_config: { repo_ref: "next" } });
  assert.equal(next.body.source_revision_config.repo_commit_sha, null);
});

test("readers see the names of secrets, not their values", async () => {
  const value = "sk-very-secret";
  const { body } = await create(bodyOf("internal_docker", "sealed", { secrets: [{ name: "KEY", value }] }));
  const reader = await t.mintKey({ role: "reader" });
  for (const url of [`/v2/deployments/${body.id}`, "/v2/deployments?name=sealed"]) {
    const read = await t.ask({ url, key: reader });
    assert.ok(!read.text.includes(value));
    assert.match(read.text, /\{"name":"KEY","value":""\}/);
  }
});

test("a patch creates a revision or not, depending on its fields", async () => {
  const { body } = await create(bodyOf("github", "patched", { secrets: [{ name: "A", value: "1" }] }));
  const first = body.latest_revision_id;
  for (const payload of [{}, { secrets: [] }, { source_config: {}, source_revision_config: {} }, { unknown: 1 }]) {
    const same = await patch(body.id, payload);
    assert.deepEqual([same.status, same.body], [200, body], JSON.stringify(payload));
  }
  const quiet = await patch(body.id, { display_name: "Bot", shareable: true, source_config: { build_on_push: false } });
  assert.deepEqual(
    [quiet.body.latest_revision_id, quiet.body.display_name, quiet.body.shareable],
    [first, "Bot", true],
  );
  const loud = await patch(body.id, { source_revision_config: { repo_ref: "main" } });
  assert.notEqual(loud.body.latest_revision_id, first);
  const revision = await t.ask({ url: `/v2/deployments/${body.id}/revisions?limit=1` });
  assert.equal(revision.body.resources[0].id, loud.body.latest_revision_id);
  const secret = await patch(body.id, { secrets: [{ name: "B", value: "2" }] });
  assert.deepEqual(secret.body.secrets, [{ name: "B", value: "2" }]);
  assert.notEqual(secret.body.latest_revision_id, loud.body.latest_revision_id);
});

test("accepts a deployment sent back exactly as it was read", async () => {
  const { body } = await create(bodyOf("external_docker", "read-modify-write"));
  const { source_config, source_revision_config, name, source } = body;
  const answer = await patch(body.id, { name, source, source_config, source_revision_config, secret_references: null });
  assert.equal(answer.status, 200, answer.text);
  assert.equal((await patch(body.id, { source_config: { listener_id: randomUUID() } })).status, 400);
});

test("eight concurrent patches lose nothing: each creates its revision", async () => {
  const { body } = await create(bodyOf("github", "patched-at-once"));
  const refs = Array.from({ length: 8 }, (_, index) => `branch-${index}`);
  const answers = await Promise.all(refs.map((repo_ref) => patch(body.id, { source_revision_config: { repo_ref } })));
  assert.ok(answers.every(({ status }) => status === 200));
  assert.equal(new Set(answers.map((answer) => answer.body.latest_revision_id)).size, 8);
  const { resources } = (await t.ask({ url: `/v2/deployments/${body.id}/revisions` })).body;
  assert.equal(resources.length, 9);
});

test("a deleted deployment leaves lists at once, stays readable, and rejects changes", async () => {
  const { body } = await create(bodyOf("github", "deleted"));
  const url = `/v2/deployments/${body.id}`;
  const early = await t.ask({ method: "DELETE", url: `${url}?force=true` });
  assert.equal(early.status, 400);
  for (const suffix of ["", "", "?delete_tracing_project=true", "?force=1"]) {
    const answer = await t.ask({ method: "DELETE", url: url + suffix });
    assert.deepEqual([answer.status, answer.text], [204, ""]);
  }
  assert.equal((await t.ask({ url })).body.status, "AWAITING_DELETE");
  assert.deepEqual(await names("name=deleted"), []);
  assert.deepEqual(await names("name=deleted&status=AWAITING_DELETE"), ["deleted"]);
  assert.deepEqual(await names(`deployment_ids=${body.id}`), ["deleted"]);
  const refused = await patch(body.id, { display_name: "x" });
  assert.deepEqual([refused.status, refused.body.detail], [400, `Deployment ID ${body.id} is being deleted.`]);
  assert.equal((await create(bodyOf("github", "deleted"))).status, 409);
  const { resources } = (await t.ask({ url: `${url}/revisions` })).body;
  assert.deepEqual(
    resources.map((one: { status: string }) => one.status),
    ["INTERRUPTED"],
  );
});
