import assert from "node:assert/strict";
import { test } from "node:test";
import type { Identified } from "../../src/gateway/caller-authorizer.ts";
import { eventually, openRaw, route, startGateway, startTarget } from "./harness.ts";

const answers: Record<string, Identified> = {
  mine: { workspaceId: "w1" },
  theirs: { workspaceId: "w2" },
  wrong: { status: 401, detail: "Invalid token" },
  "of an organization": { status: 403, detail: "say which workspace" },
};

/** A deployment of workspace w1 that counts its requests and the questions to the control plane. */
async function startSite(workspaceId: string | null = "w1") {
  const asked: string[] = [];
  let isAway = false;
  let requests = 0;
  const agent = await startTarget((_request, response) => {
    requests += 1;
    response.end("hello");
  });
  const site = await startGateway({
    identify: async (headers) => {
      asked.push(headers["x-api-key"] ?? headers["authorization"] ?? "");
      if (isAway) throw new Error("away");
      return answers[headers["x-api-key"] ?? ""] ?? { status: 401, detail: "Invalid token" };
    },
  });
  site.gateway.setRoute(route([agent.target("r1")], { admission: { workspaceId } }));
  return {
    ...{ site, asked, requests: () => requests },
    url: `${site.url}/d/demo`,
    setAway: (away: boolean) => {
      isAway = away;
    },
    async [Symbol.asyncDispose]() {
      await site[Symbol.asyncDispose]();
      await agent.stop();
    },
  };
}

const call = async (url: string, key?: string, method = "GET") => {
  const answer = await fetch(url, { method, headers: key === undefined ? {} : { "x-api-key": key } });
  return [answer.status, await answer.text()];
};
const refused = (status: number, detail: string) => [status, JSON.stringify({ detail })];

test("admits callers of the workspace, tells others why not, and hides rejected requests from the agent", async () => {
  await using world = await startSite();
  assert.deepEqual(await call(`${world.url}/runs`, "mine"), [200, "hello"]);
  assert.deepEqual(await call(`${world.url}/runs`), refused(401, "Invalid token"));
  assert.deepEqual(await call(`${world.url}/runs`, "wrong"), refused(401, "Invalid token"));
  assert.deepEqual(await call(`${world.url}/runs`, "theirs"), refused(403, "Forbidden"));
  assert.deepEqual(await call(`${world.url}/runs`, "of an organization"), refused(403, "say which workspace"));
  assert.equal(world.requests(), 1);
});

test("admits callers of any workspace to a shared deployment, and none without a key", async () => {
  await using world = await startSite(null);
  assert.deepEqual(await call(world.url, "theirs"), [200, "hello"]);
  assert.deepEqual(await call(world.url, "wrong"), refused(401, "Invalid token"));
  assert.deepEqual(await call(world.url), refused(401, "Invalid token"));
});

test("does not keep a deployment awake for rejected callers", async () => {
  await using world = await startSite();
  const { gateway } = world.site;
  await call(`${world.url}/runs`);
  await call(`${world.url}/runs`, "wrong");
  await call(`${world.url}/runs`, "theirs");
  assert.equal(gateway.lastRequestAt("demo"), null);
  await call(`${world.url}/runs`, "mine");
  await eventually(
    () => gateway.health().inFlight,
    (inFlight) => inFlight === 0,
  );
  const lastAt = gateway.lastRequestAt("demo");
  assert.ok(lastAt !== null);
  await call(`${world.url}/runs`);
  assert.deepEqual(gateway.lastRequestAt("demo"), lastAt);
  assert.equal(gateway.counts()[0]?.requests, 5);
});

test("requires no key for health checks and CORS preflights, but for everything that resembles them", async () => {
  await using world = await startSite();
  assert.deepEqual(await call(`${world.url}/ok`), [200, "hello"]);
  assert.deepEqual(await call(`${world.url}/ok?x=1`), [200, "hello"]);
  const preflight = await fetch(`${world.url}/runs`, {
    method: "OPTIONS",
    headers: { "access-control-request-method": "POST", origin: "https://app.example" },
  });
  assert.equal(preflight.status, 200);
  for (const [path, method] of [
    ["/okay", "GET"],
    ["/a/ok", "GET"],
    ["/ok", "POST"],
    ["/ok/../runs", "GET"],
    ["/runs?/ok", "GET"],
    ["/runs", "OPTIONS"],
  ] as const) {
    assert.equal((await call(world.url + path, undefined, method))[0], 401, `${method} ${path}`);
  }
});

test("verifies a known caller once a minute, and a wrong key every time", async () => {
  await using world = await startSite();
  for (let count = 0; count < 5; count += 1) await call(world.url, "mine");
  assert.equal(world.asked.length, 1);
  for (let count = 0; count < 5; count += 1) await call(world.url, "wrong");
  assert.equal(world.asked.length, 6);
});

test("admits known callers while the control plane is away, and asks others to retry", async () => {
  await using world = await startSite();
  await call(world.url, "mine");
  world.setAway(true);
  assert.deepEqual(await call(world.url, "mine"), [200, "hello"]);
  const answer = await fetch(world.url, { headers: { "x-api-key": "theirs" } });
  assert.deepEqual([answer.status, answer.headers.get("retry-after")], [503, "5"]);
});

test("admits a known caller when the control plane answers 429", async (context) => {
  await using world = await startSite();
  await call(world.url, "mine");
  const now = performance.now.bind(performance);
  context.mock.method(performance, "now", () => now() + 61_000);
  const { mine = { workspaceId: "w1" } } = answers;
  context.after(() => Object.assign(answers, { mine }));
  Object.assign(answers, { mine: { status: 429, detail: "Too many requests" } });
  assert.deepEqual(await call(world.url, "mine"), [200, "hello"]);
  assert.equal(world.asked.length, 2);
  assert.deepEqual(await call(world.url, "wrong"), refused(401, "Invalid token"));
});

test("admits no caller without a control plane to ask", async () => {
  await using agent = await startTarget((_request, response) => void response.end());
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")], { admission: { workspaceId: "w1" } }));
  assert.equal((await call(`${site.url}/d/demo`, "mine"))[0], 503);
});

test("admits a WebSocket by its key and refuses it without", async () => {
  await using world = await startSite();
  const upgrade = (key: string) =>
    `GET /d/demo/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}\r\n`;
  using without = await openRaw(world.site.port, upgrade(""));
  assert.match(await without.until(/}/), /^HTTP\/1\.1 401 /);
  using other = await openRaw(world.site.port, upgrade("X-Api-Key: theirs\r\n"));
  assert.match(await other.until(/}/), /^HTTP\/1\.1 403 /);
  assert.equal(world.requests(), 0);
});
