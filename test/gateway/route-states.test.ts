import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { eventually, exchangeRaw, openRaw, readBody, route, startGateway, startTarget } from "./harness.ts";

test("queues requests to a held route and sends all of them in order once it opens", async () => {
  const order: number[] = [];
  await using agent = await startTarget((request, response) => {
    order.push(Number(request.url?.slice(1)));
    void readBody(request).then((body) => response.end(body));
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([], { state: "held" }));
  // More than the gateway releases in one turn of the event loop.
  const ids = Array.from({ length: 150 }, (_, at) => at);
  const answers: Promise<string>[] = [];
  for (const id of ids) {
    answers.push(post(`${site.url}/d/demo/${id}`, `body ${id}`));
    await eventually(
      () => site.gateway.health().waiting,
      (waiting) => waiting === id + 1,
    );
  }
  assert.deepEqual(order, []);

  site.gateway.setRoute(route([agent.target("r1")]));

  assert.deepEqual(
    await Promise.all(answers),
    ids.map((id) => `200 body ${id}`),
  );
  assert.deepEqual(order, ids);
});

test("leaves the body of a waiting request with the client until the route opens", async () => {
  await using agent = await startTarget((request, response) => {
    void readBody(request).then((body) => response.end(`${body.length}`));
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([], { state: "held" }));
  const size = 20_000_000;
  using raw = await openRaw(site.port, `POST /d/demo/ HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`);
  raw.socket.write(Buffer.alloc(size));
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 1,
  );

  let last = -1;
  const unsent = await eventually(
    () => raw.socket.writableLength,
    (length) => {
      const isSteady = length === last;
      last = length;
      return isSteady;
    },
  );
  assert.equal(unsent > 0, true);
  site.gateway.setRoute(route([agent.target("r1")]));
  await raw.until(new RegExp(`\r\n\r\n${size}$`));
});

test("forgets a client that leaves while waiting, and never sends its request", async () => {
  const seen: string[] = [];
  await using agent = await startTarget((request, response) => {
    seen.push(request.url ?? "");
    response.end();
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([], { state: "held" }));
  using leaver = await openRaw(site.port, "GET /d/demo/leaves HTTP/1.1\r\nHost: a\r\n\r\n");
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 1,
  );
  using stayer = await openRaw(site.port, "GET /d/demo/stays HTTP/1.1\r\nHost: a\r\n\r\n");
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 2,
  );

  leaver.socket.destroy();
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 1,
  );
  site.gateway.setRoute(route([agent.target("r1")]));

  await stayer.until(/^HTTP\/1\.1 200 /);
  assert.deepEqual(seen, ["/stays"]);
  assert.equal(site.gateway.counts()[0]?.failures.aborted, 1);
});

test("answers 503 with Retry-After and the revision after the maximum wait and when the queue is full", async () => {
  const text = "GET /d/demo/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  await using full = await startGateway({ limits: { waitingMax: 1 } });
  full.gateway.setRoute(route([], { state: "held" }));
  using _first = await openRaw(full.port, text);
  await eventually(
    () => full.gateway.health().waiting,
    (waiting) => waiting === 1,
  );
  const second = await exchangeRaw(full.port, text);

  await using hasty = await startGateway({ limits: { waitMs: 300 } });
  hasty.gateway.setRoute(route([], { state: "held" }));
  const tooLong = await exchangeRaw(hasty.port, text);

  for (const answer of [second, tooLong]) {
    assert.match(answer, /^HTTP\/1\.1 503 /);
    assert.match(answer, /retry-after: 5\r\n/);
    assert.match(answer, /x-pierhead-revision: rev-1\r\n/);
  }
  assert.match(second, /"The deployment is not ready and 1 requests are already waiting for it."/);
  assert.match(tooLong, /"The deployment was not ready to answer within 1 s."/);
  for (const { gateway } of [full, hasty]) assert.equal(gateway.counts()[0]?.failures.unavailable, 1);
});

test("wakes a sleeping route once for all waiting requests, again after they have left, and measures the start", async () => {
  await using agent = await startTarget((_, response) => response.end("awake"));
  await using site = await startGateway();
  const woken: string[] = [];
  site.gateway.onWake((deploymentId) => woken.push(deploymentId));
  site.gateway.setRoute(route([], { state: "asleep" }));
  assert.deepEqual(woken, []);
  assert.equal(site.gateway.lastRequestAt("demo"), null);

  using leaver = await openRaw(site.port, "GET /d/demo/ HTTP/1.1\r\nHost: a\r\n\r\n");
  await eventually(
    () => woken,
    (calls) => calls.length === 1,
  );
  leaver.socket.destroy();
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 0,
  );

  const answers = Array.from({ length: 50 }, () => fetch(`${site.url}/d/demo/`));
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 50,
  );
  assert.deepEqual(woken, ["dep-1", "dep-1"]);
  // The listener that repeats the route may not know of the waiting requests. A starting deployment changes nothing for them.
  site.gateway.setRoute(route([], { state: "asleep" }));
  assert.deepEqual(woken, ["dep-1", "dep-1", "dep-1"]);
  site.gateway.setRoute(route([], { state: "held" }));
  assert.equal(woken.length, 3);
  site.gateway.setRoute(route([agent.target("r1")]));

  for (const answer of await Promise.all(answers)) assert.equal(await answer.text(), "awake");
  const { coldStarts } = site.gateway.counts()[0] ?? assert.fail();
  assert.equal(coldStarts.count, 1);
  assert.equal((coldStarts.lastMs ?? 0) > 0 && coldStarts.sumMs === coldStarts.maxMs, true);
  assert.equal(site.gateway.lastRequestAt("demo") instanceof Date, true);
});

test("wakes a held route that falls asleep while requests wait", async () => {
  await using site = await startGateway();
  const woken: string[] = [];
  site.gateway.onWake((deploymentId) => woken.push(deploymentId));
  site.gateway.setRoute(route([], { state: "held" }));
  using _waiting = await openRaw(site.port, "GET /d/demo/ HTTP/1.1\r\nHost: a\r\n\r\n");
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 1,
  );
  site.gateway.setRoute(route([], { state: "asleep" }));
  assert.deepEqual(woken, ["dep-1"]);
});

test("answers 503 with the reason on a closed route, also to waiting requests, and 404 once it is removed", async () => {
  await using site = await startGateway();
  site.gateway.setRoute(route([], { state: "held" }));
  const waiting = fetch(`${site.url}/d/demo/`);
  await eventually(
    () => site.gateway.health().waiting,
    (count) => count === 1,
  );
  const closed = route([], { state: "closed", because: "Its last revision failed to start." });
  site.gateway.setRoute(closed);
  for (const answer of [await waiting, await fetch(`${site.url}/d/demo/`)]) {
    assert.equal(answer.status, 503);
    assert.equal(answer.headers.get("retry-after"), "5");
    assert.deepEqual(await answer.json(), { detail: "Its last revision failed to start." });
  }
  site.gateway.setRoute(route([]));
  const empty = await fetch(`${site.url}/d/demo/`);
  assert.equal(empty.status, 503);
  assert.deepEqual(await empty.json(), { detail: "Revision rev-1 has no replica that accepts requests." });

  site.gateway.setRoute(route([], { state: "held" }));
  const left = fetch(`${site.url}/d/demo/`);
  await eventually(
    () => site.gateway.health().waiting,
    (count) => count === 1,
  );
  site.gateway.removeRoute("demo");
  assert.equal((await left).status, 404);
  assert.equal((await fetch(`${site.url}/d/demo/`)).status, 404);
});

test("drains a replica once its last answer is complete, with a time limit and cancellation", async () => {
  const open: ServerResponse[] = [];
  await using agent = await startTarget((_, response) => {
    response.write("begun");
    open.push(response);
  });
  await using site = await startGateway();
  const { gateway } = site;
  const { signal } = new AbortController();
  assert.equal(await gateway.drained("never seen", { timeoutMs: 1, signal }), true);
  gateway.setRoute(route([agent.target("r1")]));
  using raw = await openRaw(site.port, "GET /d/demo/ HTTP/1.1\r\nHost: a\r\n\r\n");
  await raw.until(/begun/);

  gateway.setRoute(route([], { state: "held", revisionId: "rev-2" }));
  assert.equal(gateway.inFlight("r1"), 1);
  assert.equal(await gateway.drained("r1", { timeoutMs: 50, signal }), false);
  const controller = new AbortController();
  const waiting = gateway.drained("r1", { timeoutMs: 60_000, signal: controller.signal });
  controller.abort(new Error("cancelled"));
  await assert.rejects(waiting, /cancelled/);
  const drained = gateway.drained("r1", { timeoutMs: 60_000, signal });
  open[0]?.end();
  assert.equal(await drained, true);
  assert.equal(gateway.inFlight("r1"), 0);
});

test("refuses waiting requests on close, lets answers in flight end within the grace period, and breaks off the rest", async () => {
  const open: ServerResponse[] = [];
  await using agent = await startTarget((request, response) => {
    response.write("begun");
    if (request.url === "/ends") open.push(response);
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  site.gateway.setRoute(route([], { slug: "held", deploymentId: "dep-2", state: "held" }));
  using ends = await openRaw(site.port, "GET /d/demo/ends HTTP/1.1\r\nHost: a\r\n\r\n");
  using stays = await openRaw(site.port, "GET /d/demo/stays HTTP/1.1\r\nHost: a\r\n\r\n");
  using waits = await openRaw(site.port, "GET /d/held/ HTTP/1.1\r\nHost: a\r\n\r\n");
  await ends.until(/begun/);
  await stays.until(/begun/);
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 1,
  );

  site.gateway.stopAccepting();
  await waits.until(/^HTTP\/1\.1 503 [\s\S]*retry-after: 5[\s\S]*"The gateway is shutting down."/i);
  assert.equal((await fetch(`${site.url}/d/demo/ends`)).status, 503);
  assert.equal(site.gateway.health().inFlight, 2);

  const closed = site.gateway.close({ graceMs: 3_000 });
  open[0]?.end("ended");
  await closed;

  await ends.until(/ended\r\n0\r\n\r\n$/);
  await eventually(stays.isEnded, (isEnded) => isEnded);
  assert.equal(site.gateway.health().inFlight, 0);
});

async function post(url: string, body: string): Promise<string> {
  const answer = await fetch(url, { method: "POST", body });
  return `${answer.status} ${await answer.text()}`;
}
