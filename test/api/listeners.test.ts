import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi, type TestApi } from "./harness.ts";

const t = await startApi();
const url = "/v2/listeners";
const k8s = (computeId: string, namespaces: unknown = ["agents"], more: object = {}) => ({
  compute_type: "k8s",
  compute_id: computeId,
  compute_config: { k8s_namespaces: namespaces },
  ...more,
});
const create = (payload: object, key = t.tenant.adminKey) => t.ask({ method: "POST", url, payload, key });
const patch = (id: string, payload: object) => t.ask({ method: "PATCH", url: `${url}/${id}`, payload });
const remove = (id: string, key = t.tenant.adminKey) => t.ask({ method: "DELETE", url: `${url}/${id}`, key });
const openSession = (key: string, instance = "i-1") =>
  t.ask({
    method: "POST",
    url: "/dp/v1/sessions",
    key,
    payload: { instance_id: instance, version: "9.9.9", protocols: [1], compute_type: "k8s" },
  });
const deploy = (name: string, listenerId: string | null, namespace: string | null = null, on: TestApi = t) =>
  on.ask({
    method: "POST",
    url: "/v2/deployments",
    payload: {
      name,
      source: "external_docker",
      source_config: { resource_spec: {}, listener_id: listenerId, listener_config: { k8s_namespace: namespace } },
      source_revision_config: { image_uri: "registry.example.org/acme/bot:1.0" },
    },
  });

test("registers, reads, lists, changes and deletes a listener", async () => {
  const made = await create(k8s("cluster-1", ["agents", "more", "agents"], { version: "1.2.3" }));
  assert.equal(made.status, 201, made.text);
  const { listener_key: key, ...listener } = made.body;
  assert.match(key, /^ph_/);
  assert.deepEqual(
    { ...listener, id: "", created_at: "", updated_at: "" },
    {
      id: "",
      version: "1.2.3",
      compute_type: "k8s",
      compute_id: "cluster-1",
      compute_config: { k8s_namespaces: ["agents", "more"] },
      status: "NEW",
      last_seen_at: null,
      drain: false,
      log_level: null,
      image_registry: null,
      labels: {},
      created_at: "",
      updated_at: "",
    },
  );
  assert.deepEqual((await t.ask({ url: `${url}/${listener.id}` })).body, listener);
  const { resources, offset } = (await t.ask({ url: `${url}?limit=100` })).body;
  assert.deepEqual([resources, offset], [[listener], 1]);
  assert.deepEqual((await t.ask({ url: `${url}?offset=1` })).body, { resources: [], offset: 1 });

  const same = await patch(listener.id, { version: null, compute_config: {} });
  assert.deepEqual({ ...same.body, updated_at: "" }, { ...listener, updated_at: "" });
  const changed = await patch(listener.id, { version: "2", compute_config: { k8s_namespaces: ["other"] } });
  assert.deepEqual([changed.body.version, changed.body.compute_config], ["2", { k8s_namespaces: ["other"] }]);

  const ordered = await patch(listener.id, { drain: true, log_level: "debug" });
  assert.deepEqual([ordered.body.drain, ordered.body.log_level, ordered.body.version], [true, "debug", "2"]);
  const kept = await patch(listener.id, { drain: null, version: "3" });
  assert.deepEqual([kept.body.drain, kept.body.log_level], [true, "debug"]);
  const own = await patch(listener.id, { drain: false, log_level: "own" });
  assert.deepEqual([own.body.drain, own.body.log_level], [false, null]);
  assert.equal((await patch(listener.id, { log_level: "loud" })).status, 422);

  assert.deepEqual([(await remove(listener.id)).status, (await remove(listener.id)).status], [204, 404]);
});

test("a cluster is registered once per workspace; another workspace may use the same name", async () => {
  const answers = await Promise.all(Array.from({ length: 4 }, () => create(k8s("twice"))));
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 409, 409, 409]);
  const refused = answers.find(({ status }) => status === 409);
  assert.deepEqual(refused?.body, {
    detail: `Listener for LangSmith workspace ID '${t.tenant.tenantId}' and compute ID 'twice' already exists.`,
  });
  assert.equal((await create(k8s("twice"), t.stranger.adminKey)).status, 201);
});

test("unknown, foreign and built-in listeners answer alike", async () => {
  const foreign = (await create(k8s("foreign"), t.stranger.adminKey)).body.id;
  for (const id of [foreign, randomUUID(), t.deps.listenerId]) {
    const missing = [404, { detail: `Listener ID ${id} not found.` }];
    for (const method of ["GET", "PATCH", "DELETE"] as const) {
      const answer = await t.ask({ method, url: `${url}/${id}`, ...(method === "PATCH" && { payload: {} }) });
      assert.deepEqual([answer.status, answer.body], missing, method);
    }
    const key = await t.ask({ method: "POST", url: `${url}/${id}/key` });
    assert.deepEqual([key.status, key.body], missing);
    const enrollment = await t.ask({ method: "POST", url: `${url}/${id}/enrollment` });
    assert.deepEqual([enrollment.status, enrollment.body], missing);
  }
  const broken = await t.ask({ url: `${url}/listener-1` });
  assert.deepEqual([broken.status, broken.body.detail[0].type], [422, "uuid_parsing"]);
});

test("rejects invalid listeners: 422 for the shape, 400 for impossible namespaces", async () => {
  const wrong = await create({ compute_type: "vm", compute_id: 5 });
  assert.equal(wrong.status, 422);
  assert.deepEqual(
    wrong.body.detail.map(({ type, loc, msg }: { type: string; loc: string[]; msg: string }) => [type, loc, msg]),
    [
      ["literal_error", ["body", "compute_type"], "Input should be 'k8s'"],
      ["string_type", ["body", "compute_id"], "Input should be a valid string"],
      ["missing", ["body", "compute_config"], "Field required"],
    ],
  );
  for (const namespaces of [[], ["Agents"], ["a/b"], ["-a"], ["a".repeat(64)], [""]]) {
    const { status, body } = await create(k8s("odd", namespaces));
    assert.equal(status, 400);
    assert.match(body.detail, /^Listener configuration error: 'compute_config\.k8s_namespaces' /);
  }
  assert.equal((await create(k8s("free", null))).status, 201);
});

test("only organizations with a self-hosted enterprise plan have listeners, where plans decide", async () => {
  for (const mode of ["cloud", "self_hosted"] as const) {
    const other = await startApi({ mode });
    const { organizationId, tenantId } = other.tenant;
    const refusal = {
      detail:
        `Listeners cannot be created for LangSmith workspace ID '${tenantId}'. ` +
        "Creating listeners is only allowed for LangSmith organizations with self-hosted enterprise plans.",
    };
    await other.db.query(sql`update organizations set plan = 'cloud' where id = ${organizationId}`);
    for (const [method, path, payload] of [
      ["GET", url, undefined],
      ["POST", url, k8s("x")],
      ["GET", `${url}/${randomUUID()}`, undefined],
      ["PATCH", `${url}/${randomUUID()}`, {}],
      ["DELETE", `${url}/${randomUUID()}`, undefined],
    ] as const) {
      const answer = await other.ask({ method, url: path, ...(payload && { payload }) });
      assert.deepEqual([answer.status, answer.body], [403, refusal], `${mode} ${method}`);
    }
    const allowed = await other.ask({ method: "POST", url, payload: k8s("x"), key: other.stranger.adminKey });
    assert.equal(allowed.status, 201, mode);
  }
});

test("a listener's key opens only its session; a new key ends all but the previous one", async () => {
  const { body } = await create(k8s("keyed"));
  const session = await openSession(body.listener_key);
  assert.deepEqual([session.status, session.body.listener_id], [201, body.id], session.text);
  const seen = (await t.ask({ url: `${url}/${body.id}` })).body;
  assert.deepEqual([seen.status, seen.version], ["CONNECTED", "9.9.9"]);
  assert.equal((await t.ask({ url: "/v2/deployments", key: body.listener_key })).status, 403);

  const renew = async () => (await t.ask({ method: "POST", url: `${url}/${body.id}/key` })).body.listener_key;
  const [second, third] = [await renew(), await renew()];
  const { rows } = await t.db.query<{ revoked: boolean; lasts_s: number | null }>(sql`
    select revoked_at is not null as revoked, extract(epoch from expires_at - now())::int as lasts_s
      from api_keys where listener_id = ${body.id} order by created_at`);
  assert.deepEqual(
    rows.map(({ revoked }) => revoked),
    [true, false, false],
  );
  assert.ok((rows[1]?.lasts_s ?? 0) > 3_500 && (rows[1]?.lasts_s ?? 0) <= 3_600);
  assert.equal(rows[2]?.lasts_s, null);
  for (const key of [second, third]) assert.equal((await openSession(key)).status, 201);
  assert.equal((await remove(body.id)).status, 204);
  const { rows: keys } = await t.db.query(
    sql`select 1 from api_keys where listener_id = ${body.id} and revoked_at is null`,
  );
  assert.equal(keys.length, 0);
});

test("a listener's keys end at once, also for a program that just used them", async () => {
  const { body } = await create(k8s("ended"));
  const replace = () => t.ask({ method: "POST", url: `${url}/${body.id}/key` });
  const second = (await replace()).body.listener_key;
  for (const key of [body.listener_key, second]) assert.equal((await openSession(key)).status, 201);
  const third = (await replace()).body.listener_key;
  assert.equal((await openSession(body.listener_key)).status, 401, "the key before the previous one");
  for (const key of [second, third]) assert.equal((await openSession(key)).status, 201);
  assert.equal((await remove(body.id)).status, 204);
  for (const key of [second, third]) assert.equal((await openSession(key)).status, 401);
});

test("an enrollment token is exchanged for the listener's key once, within a day, and is useless otherwise", async () => {
  const { body } = await create(k8s("enrolled"));
  const ask = async () => (await t.ask({ method: "POST", url: `${url}/${body.id}/enrollment` })).body;
  const enroll = (key: string) => t.ask({ method: "POST", url: "/dp/v1/enroll", key });
  const [replaced, { enrollment_token: token, expires_at }] = [(await ask()).enrollment_token, await ask()];
  assert.ok(Math.abs(Date.parse(expires_at) - Date.now() - 86_400_000) < 60_000, expires_at);
  assert.equal((await enroll(replaced)).status, 401, "only the newest token counts");
  assert.equal((await openSession(token)).status, 403);
  assert.equal((await t.ask({ url: "/v2/listeners", key: token })).status, 403);
  assert.equal((await enroll(body.listener_key)).status, 409);

  const answers = await Promise.all([enroll(token), enroll(token)]);
  assert.deepEqual(
    answers.map(({ status }) => status).toSorted(),
    [201, 401],
    "of two concurrent exchanges one succeeds",
  );
  const won = answers.find(({ status }) => status === 201)?.body;
  assert.equal(won.listener_id, body.id);
  for (const key of [won.listener_key, body.listener_key]) assert.equal((await openSession(key)).status, 201);
  assert.equal((await enroll(token)).status, 401);

  const { enrollment_token: late } = await ask();
  await t.db.query(
    sql`update api_keys set expires_at = now() - interval '1 second' where listener_id = ${body.id} and one_time`,
  );
  assert.equal((await enroll(late)).status, 401);
  const { enrollment_token: open } = await ask();
  assert.equal((await openSession(won.listener_key)).status, 201, "creating a token ends no key");
  await remove(body.id);
  assert.equal((await enroll(open)).status, 401, "nor does it outlive its listener");
});

test("the audit log has every change, and no key", async () => {
  const { body } = await create(k8s("audited"));
  await patch(body.id, { compute_config: { k8s_namespaces: ["b", "c"] } });
  await t.ask({ method: "POST", url: `${url}/${body.id}/key` });
  await remove(body.id);
  const { rows } = await t.db.query<{ action: string; row: string }>(sql`
    select action, a::text as row from audit_log a where subject_id = ${body.id} order by id`);
  assert.deepEqual(
    rows.map(({ action }) => action),
    ["listener.create", "listener.patch", "listener.replace_key", "listener.delete"],
  );
  assert.ok(!rows.some(({ row }) => row.includes(body.listener_key)));
});

test("a deployment goes to the listener and namespace that it names, and keeps both", async () => {
  const one = (await create(k8s("one", ["only"]))).body.id;
  const two = (await create(k8s("two", ["a", "b"]))).body.id;
  const placed = await deploy("placed", one);
  assert.deepEqual(
    [placed.body.source_config.listener_id, placed.body.source_config.listener_config],
    [one, { k8s_namespace: "only" }],
    placed.text,
  );
  assert.equal((await deploy("unplaced", null)).body.source_config.listener_id, null);
  assert.match((await deploy("which", two)).body.detail, /k8s_namespace' is required: the listener has a, b\./);
  assert.match((await deploy("where", two, "c")).body.detail, /must be one of a, b\./);
  assert.match((await deploy("whose", randomUUID())).body.detail, /is not a listener of this workspace/);
  const remote = await t.ask({ url: "/v2/deployments?remote_reconciled=true" });
  assert.deepEqual(
    remote.body.resources.map(({ name }: { name: string }) => name),
    ["placed"],
  );

  const inUse = await remove(one);
  assert.equal(inUse.status, 409);
  assert.match(inUse.body.detail, /^Listener has 1 deployments/);
  const narrowed = await patch(one, { compute_config: { k8s_namespaces: ["other"] } });
  assert.match(narrowed.body.detail, /must keep only: deployments run there/);
  assert.equal((await patch(one, { compute_config: { k8s_namespaces: ["only", "other"] } })).status, 200);
});

test("without a built-in data plane a deployment must name a listener of the workspace", async () => {
  const other = await startApi({ hasBuiltinDataPlane: false });
  const made = [];
  for (const name of ["x", "y"]) made.push(await other.ask({ method: "POST", url, payload: k8s(name) }));
  const ids = made.map(({ body }) => `'${body.id}'`).join(", ");
  const refused = await deploy("homeless", null, null, other);
  assert.deepEqual(
    [refused.status, refused.body.detail],
    [
      400,
      `Source configuration error: 'source_config.listener_id' is required for workspace with available listener IDs: [${ids}]`,
    ],
  );
  assert.equal((await deploy("housed", made[1]?.body.id, null, other)).status, 201);
});
