import assert from "node:assert/strict";
import { after, test } from "node:test";
import { bodyLimits } from "../../src/contract/body-limits.ts";
import { operations } from "../../src/contract/operations.ts";
import { startTestServer } from "../support/server.ts";
import { headOf, openRaw } from "./raw-connection.ts";

const pierhead = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
after(() => pierhead[Symbol.asyncDispose]());
const { key: deployer } = await pierhead.client.createApiKey({ body: { name: "deployer", role: "deployer" } });

const fromConsole = { "x-pierhead-console": "1" };
const isAlive = async () => (await fetch(`${pierhead.url}/ok`)).status === 200;

test("a body must not be read before the key was checked, whatever the operation", async () => {
  const withKey = Object.values(operations).filter(({ verb, role }) => verb !== "GET" && role !== "none");
  assert.ok(withKey.length > 60);
  for (const { id, verb, path } of withKey) {
    using connection = openRaw(pierhead.url);
    connection.send(headOf({ verb, path: path.replaceAll(/\{\w+\}/g, "x"), length: 1_000 }));
    assert.deepEqual(await connection.answer, { status: 401, code: "invalidToken" }, id);
  }
});

test("a body must not be read when the headers show that its sender is no console or code host", async () => {
  for (const [path, code] of [
    ["/v2/session", "forbidden"],
    ["/v1/integrations/github/webhook", "webhookUnsigned"],
    ["/v1/integrations/00000000-0000-4000-8000-000000000000/webhook", "webhookUnsigned"],
  ] as const) {
    using connection = openRaw(pierhead.url);
    connection.send(headOf({ path, length: 1_000 }));
    assert.deepEqual(await connection.answer, { status: 403, code }, path);
  }
});

test("a body without a key must not be read beyond 16 KiB, announced or not", async () => {
  for (const path of ["/v2/session", "/v1/metadata/submit"]) {
    using announced = openRaw(pierhead.url);
    announced.send(headOf({ path, length: 8 * 2 ** 20 }, fromConsole));
    assert.deepEqual(await announced.answer, { status: 413, code: "bodyTooLarge" }, path);
    using chunked = openRaw(pierhead.url);
    const { bytesMax } = bodyLimits.small;
    chunked.send(
      headOf({ path, length: 0 }, { ...fromConsole, "transfer-encoding": "chunked" }).replace(
        /content-length.*\r\n/,
        "",
      ),
    );
    chunked.send(`${(2 * bytesMax).toString(16)}\r\n${" ".repeat(bytesMax + 1)}`);
    assert.deepEqual(await chunked.answer, { status: 413, code: "bodyTooLarge" }, path);
  }
});

test("a deep or wide body must not be read to its end, with a key or without one", async () => {
  const deep = "[".repeat(1_000);
  const wide = `{${Array.from({ length: 60_000 }, (_, index) => `"${index.toString(36)}":0,`).join("")}`;
  const created = { "x-api-key": deployer as string };
  for (const [path, headers, body, answer] of [
    ["/v2/session", fromConsole, deep, { status: 400, code: "bodyTooDeep" }],
    ["/v2/session", fromConsole, wide.slice(0, 12_000), { status: 413, code: "bodyTooManyValues" }],
    ["/v2/deployments", created, deep, { status: 400, code: "bodyTooDeep" }],
    ["/v2/deployments", created, wide, { status: 413, code: "bodyTooManyValues" }],
    [
      "/v2/deployments",
      created,
      `{"source_config":{"resource_spec":${wide}`,
      { status: 413, code: "bodyTooManyValues" },
    ],
  ] as const) {
    using connection = openRaw(pierhead.url);
    connection.send(headOf({ path, length: body.length + 1_000 }, headers));
    connection.send(body);
    assert.deepEqual(await connection.answer, answer, `${path} ${body.slice(0, 40)}`);
  }
});

test("half-sent bodies of one address must not take more than its share of memory, and others are answered meanwhile", async () => {
  const bytes = bodyLimits.small.bytesMax;
  const attackers = Array.from({ length: 200 }, () => openRaw(pierhead.url));
  try {
    for (const { send } of attackers) {
      send(headOf({ path: "/v1/metadata/submit", length: bytes }));
      send(" ".repeat(bytes - 1));
    }
    // 128 bodies of 16 KiB fill the 2 MiB of an address. The others are refused, although they are small.
    const refused = attackers.map(({ answer }, index) => answer.then(({ status }) => [index, status] as const));
    const first = await firstOf(72, refused);
    assert.deepEqual([...new Set(first.map(([, status]) => status))], [429]);
    assert.ok(await isAlive());
    const { api_key_id: id } = await pierhead.client.getSession();
    assert.ok(id !== null);
  } finally {
    for (const one of attackers) one[Symbol.dispose]();
  }
});

test("the connection of a refused body must not stay open for its sender", async () => {
  using connection = openRaw(pierhead.url);
  connection.send(headOf({ path: "/v2/deployments", length: 1_000 }));
  assert.equal((await connection.answer).status, 401);
  await connection.closed;
});

test("refused bodies must not be free: their address is limited, and other operations and keys are not", async () => {
  const malformed = () => fetch(`${pierhead.url}/v2/session`, { method: "POST", headers: fromConsole, body: "{" });
  const statuses = new Set<number>();
  for (let sent = 0; sent < 1_000 && !statuses.has(429); sent += 1) statuses.add((await malformed()).status);
  assert.deepEqual([...statuses], [422, 429]);
  // Not even the start of a body is read any more.
  using connection = openRaw(pierhead.url);
  connection.send(headOf({ path: "/v2/session", length: 1_000 }, fromConsole));
  assert.deepEqual(await connection.answer, { status: 429, code: "tooManyRequests" });
  assert.equal((await fetch(`${pierhead.url}/v1/metadata/submit`, { method: "POST", body: "{}" })).status, 204);
  await pierhead.client.createWebhook({ body: { url: "https://hooks.invalid/" } });
});

/** Waits for the first `count` of these promises. */
function firstOf<T>(count: number, promises: readonly Promise<T>[]): Promise<T[]> {
  const done: T[] = [];
  return new Promise((resolve, reject) => {
    for (const one of promises) {
      one.then((value) => {
        done.push(value);
        if (done.length === count) resolve(done);
      }, reject);
    }
  });
}
