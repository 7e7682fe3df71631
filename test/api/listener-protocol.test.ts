import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { epochHeader, type Inventory, inventoryPageMax } from "../../src/contract/listeners/assignment.ts";
import { pagesOf } from "../../src/listener/session/leadership.ts";
import { writeAssignment } from "../../src/store/data-plane/assignments.ts";
import { eventually } from "../support/eventually.ts";
import { startApi, type TestApi } from "./harness.ts";

const t = await startApi();

interface Opened {
  id: string;
  key: string;
  epoch: string;
  call(method: "GET" | "POST", path: string, payload?: object): ReturnType<TestApi["ask"]>;
}

/** A listener of the workspace with an open session. */
async function openListener(facts: object = {}): Promise<Opened> {
  const made = await t.ask({
    method: "POST",
    url: "/v2/listeners",
    payload: { compute_type: "k8s", compute_id: randomUUID(), compute_config: {} },
  });
  const { id, listener_key: key } = made.body as { id: string; listener_key: string };
  const payload = { instance_id: "one", version: "1.0.0", protocols: [7, 1], compute_type: "kubernetes", ...facts };
  const session = await t.ask({ method: "POST", url: "/dp/v1/sessions", key, payload });
  assert.equal(session.status, 201, JSON.stringify(session.body));
  const epoch = String((session.body as { epoch: number }).epoch);
  const headers = { [epochHeader]: epoch };
  const call: Opened["call"] = (method, path, sent) =>
    t.ask({ method, url: path, key, headers, ...(sent === undefined ? {} : { payload: sent }) });
  return { id, key, epoch, call };
}

const deploy = async (listenerId: string, k8s_namespace?: string) => {
  const made = await t.ask({
    method: "POST",
    url: "/v2/deployments",
    payload: {
      name: `d-${randomUUID()}`,
      source: "external_docker",
      source_config: { listener_id: listenerId, ...(k8s_namespace && { listener_config: { k8s_namespace } }) },
      source_revision_config: { image_uri: "127.0.0.1:1/bot:1" },
    },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body as { id: string; tenant_id: string; url: string };
};

const assign = ({ id, tenant_id }: { id: string; tenant_id: string }, listenerId: string, seen = 0) =>
  writeAssignment(t.db, {
    seen,
    ...{ deployment_id: id, tenant_id, listener_id: listenerId, slug: id.slice(0, 8), op: "apply" },
    ...{ target: null, serving: null, idle_after_ms: null },
  });

test("an inventory reports deployments that no longer belong to the listener, and whether items are missing or old", async () => {
  const [own, other] = [await openListener(), await openListener()];
  const [first, second, foreign] = [await deploy(own.id), await deploy(own.id), await deploy(other.id)];
  await assign(first, own.id);
  await assign(first, own.id, 1);
  await assign(foreign, other.id);
  const compare = async (items: object[]) => (await own.call("POST", "/dp/v1/inventory", { items })).body;
  const held = (deployment: { id: string }, generation: number) => ({ deployment_id: deployment.id, generation });
  assert.deepEqual(await compare([held(first, 2)]), { unknown: [], is_behind: false });
  assert.deepEqual(await compare([held(first, 1)]), { unknown: [], is_behind: true });
  assert.deepEqual(await compare([]), { unknown: [], is_behind: true });
  const ahead = await own.call("POST", "/dp/v1/inventory", { items: [held(first, 3)] });
  assert.equal(ahead.status, 410, "a version that was not issued yet: the database is an older backup");
  const gone = randomUUID();
  const answer = (await compare([held(first, 2), held(foreign, 1), held(second, 1), held({ id: gone }, 4)])) as {
    unknown: string[];
  };
  assert.deepEqual(answer.unknown.toSorted(), [foreign.id, second.id, gone].toSorted());
});

test("compares a large inventory page by page, and finds what is missing on each", async () => {
  const { id, call } = await openListener();
  const deployment = await deploy(id);
  const assigned = deployment.id;
  await assign(deployment, id);
  const items = Array.from({ length: 3 * inventoryPageMax }, () => ({
    deployment_id: randomUUID(),
    generation: 123_456,
  }));
  const compare = async (held: Inventory["items"]) => {
    const answers = [];
    for (const page of pagesOf(held)) {
      const { status, body } = await call("POST", "/dp/v1/inventory", page);
      assert.equal(status, 200, JSON.stringify(body).slice(0, 300));
      answers.push(body as { unknown: string[]; is_behind: boolean });
    }
    return answers;
  };
  const answers = await compare(items);
  assert.equal(answers.length, 3);
  assert.deepEqual(answers.flatMap(({ unknown }) => unknown).sort(), items.map((one) => one.deployment_id).sort());
  assert.deepEqual(answers.map(({ is_behind }) => is_behind).sort(), [false, false, true]);
  const complete = await compare([...items, { deployment_id: assigned, generation: 1 }]);
  assert.deepEqual(new Set(complete.map(({ is_behind }) => is_behind)), new Set([false]));
});

test("a cursor ahead of everything answers 410 instead of silence", async () => {
  const { id, call } = await openListener();
  await assign(await deploy(id), id);
  const page = (await call("GET", "/dp/v1/desired?after=0")).body as { rv: number; items: unknown[] };
  assert.equal(page.items.length, 1);
  assert.equal((await call("GET", `/dp/v1/desired?after=${page.rv}`)).status, 200);
  assert.equal((await call("GET", `/dp/v1/desired?after=${page.rv + 1}`)).status, 410);
});

test("deployments get the address that their data plane reports, at once and in lists by address", async () => {
  const { id } = await openListener({ agents_url: "https://{slug}.agents.example.com", capabilities: ["later"] });
  const made = await deploy(id);
  assert.match(made.url, /^https:\/\/d-[0-9a-f-]+\.agents\.example\.com$/);
  const read = await t.ask({ method: "GET", url: `/v2/deployments/${made.id}` });
  assert.equal((read.body as { url: string }).url, made.url);
  const found = await t.ask({ method: "GET", url: `/v2/deployments?url=${encodeURIComponent(made.url)}` });
  assert.deepEqual(
    (found.body as { resources: { id: string }[] }).resources.map((one) => one.id),
    [made.id],
  );
});

test("inside a cluster deployments use their own namespace, or the listener's first one", async () => {
  const { id } = await openListener({ agents_url: "http://{slug}.{namespace:agents}.svc:8000" });
  for (const [namespace, place] of [
    [undefined, "agents"],
    ["staging", "staging"],
  ] as const) {
    const made = await deploy(id, namespace);
    assert.match(made.url, new RegExp(`^http://d-[0-9a-f-]+\\.${place}\\.svc:8000$`));
    const found = await t.ask({ method: "GET", url: `/v2/deployments?url=${encodeURIComponent(made.url)}` });
    assert.deepEqual(
      (found.body as { resources: { id: string }[] }).resources.map((one) => one.id),
      [made.id],
    );
  }
});

test("a heartbeat reports when the current key ends once there is a newer one", async () => {
  const { id, key, epoch } = await openListener();
  const beat = async (shown: string) =>
    (await t.ask({ method: "POST", url: "/dp/v1/heartbeat", key: shown, headers: { [epochHeader]: epoch } })).body;
  assert.equal((await beat(key)).key_ends_at, null);
  const { listener_key } = (await t.ask({ method: "POST", url: `/v2/listeners/${id}/key` })).body;
  const { key_ends_at } = await eventually<{ key_ends_at: string | null }>(
    () => beat(key),
    (heartbeat) => heartbeat.key_ends_at !== null,
  );
  assert.ok(Math.abs(Date.parse(key_ends_at ?? "") - Date.now() - 3_600_000) < 60_000, key_ends_at ?? "");
  assert.equal((await beat(listener_key)).key_ends_at, null, "the session continues under the new key");
});

test("a heartbeat carries drain and log level; a draining listener opens no session until that is taken back", async () => {
  const { id, key, epoch } = await openListener();
  const headers = { [epochHeader]: epoch };
  const beat = async () => (await t.ask({ method: "POST", url: "/dp/v1/heartbeat", key, headers })).body;
  const patch = (payload: object) => t.ask({ method: "PATCH", url: `/v2/listeners/${id}`, payload });
  const orders = async () => (({ drain, log_level }) => [drain, log_level])(await beat());
  assert.deepEqual(await orders(), [false, null]);
  await patch({ drain: true, log_level: "debug" });
  assert.deepEqual(await orders(), [true, "debug"]);
  assert.equal((await t.ask({ method: "DELETE", url: "/dp/v1/sessions", key, headers })).status, 204);
  const payload = { instance_id: "again", version: "1", protocols: [1], compute_type: "k8s" };
  const open = () => t.ask({ method: "POST", url: "/dp/v1/sessions", key, payload });
  const refused = await open();
  assert.deepEqual([refused.status, refused.body.error], [409, "listener_draining"]);
  await patch({ drain: false });
  assert.equal((await open()).status, 201);
});

test("accepts a newer listener: ignores unknown fields and rejects an unknown protocol", async () => {
  await openListener({ colour: "green" });
  const { id } = (
    await t.ask({
      method: "POST",
      url: "/v2/listeners",
      payload: { compute_type: "k8s", compute_id: "x", compute_config: {} },
    })
  ).body as { id: string };
  const { listener_key: key } = (await t.ask({ method: "POST", url: `/v2/listeners/${id}/key` })).body as {
    listener_key: string;
  };
  const payload = { instance_id: "one", version: "9", protocols: [2, 3], compute_type: "kubernetes" };
  const refused = await t.ask({ method: "POST", url: "/dp/v1/sessions", key, payload });
  assert.equal(refused.status, 400);
  assert.match(JSON.stringify(refused.body), /This server speaks 1/);
});

/** An open stream of a listener's assignments, with the text received so far. */
async function follow({ key, epoch }: Opened) {
  const base = await listening();
  const ending = new AbortController();
  const headers = { "x-api-key": key, accept: "text/event-stream", [epochHeader]: epoch };
  const answer = await fetch(`${base}/dp/v1/desired?after=0`, { headers, signal: ending.signal });
  assert.equal(answer.headers.get("content-type"), "text/event-stream; charset=utf-8");
  const reader = (answer.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  const came = { text: "" };
  const readUntil = async (pattern: RegExp) => {
    while (!pattern.test(came.text)) {
      came.text += (await reader.read()).value ?? assert.fail(`the stream ended: ${came.text}`);
    }
  };
  const readToEnd = async (unwanted: RegExp) => {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      came.text += read.value;
      assert.doesNotMatch(came.text, unwanted);
    }
  };
  return { came, readUntil, readToEnd, close: () => ending.abort() };
}

let base: Promise<string> | undefined;
function listening(): Promise<string> {
  base ??= t.api.listen({ host: "127.0.0.1", port: 0 });
  return base;
}

test("sends assignments as server-sent events, each with its cursor", async () => {
  const opened = await openListener();
  const { id } = opened;
  const first = await deploy(id);
  await assign(first, id);
  const stream = await follow(opened);
  await stream.readUntil(/^id: 1\nevent: desired\ndata: .*\n\n/m);
  const second = await deploy(id);
  await assign(second, id);
  await stream.readUntil(/^id: 2\nevent: desired\ndata: .*\n\n/m);
  const pages = [...stream.came.text.matchAll(/^data: (.*)$/gm)].map(
    ([, json]) => JSON.parse(json ?? "") as { items: { deployment_id: string }[] },
  );
  assert.deepEqual(
    pages.flatMap(({ items }) => items.map((item) => item.deployment_id)),
    [first.id, second.id],
  );
  stream.close();
});

test("an expired or revoked key receives no more assignments and renews no session", async () => {
  const [active, idle, asking] = [await openListener(), await openListener(), await openListener()];
  const streams = [await follow(active), await follow(idle)] as const;
  for (const stream of streams) await stream.readUntil(/^: assignments follow\n/);
  const polled = asking.call("GET", "/dp/v1/desired?after=0&wait=30");
  const isAsked = async () => (await keyOf(asking)).last_used_at;
  await eventually(isAsked, (usedAt) => usedAt !== null);
  for (const one of [active, idle, asking]) {
    const { id } = await keyOf(one);
    assert.equal((await t.ask({ method: "DELETE", url: `/v2/admin/api-keys/${id}` })).status, 204);
  }
  for (const { id } of [active, asking]) await assign(await deploy(id), id);
  await streams[0].readToEnd(/event: desired/);
  const answer = await polled;
  assert.equal(answer.status, 401, answer.text);
  // The stream ends at its next session renewal, every 10 s; one renewal may have happened before.
  await streams[1].readToEnd(/: ping\n\n: ping/);
});

async function keyOf({ id }: Opened) {
  const { body } = await t.ask({ url: "/v2/admin/api-keys?role=listener&limit=100&include_inactive=true" });
  const found = (body.resources as { id: string; listener_id: string; last_used_at: string | null }[]).find(
    ({ listener_id }) => listener_id === id,
  );
  return found ?? assert.fail(`listener ${id} has no key`);
}
