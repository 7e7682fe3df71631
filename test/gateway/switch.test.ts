import assert from "node:assert/strict";
import { Agent, get, type ServerResponse } from "node:http";
import { test } from "node:test";
import { eventually, openRaw, readBody, route, startGateway, startTarget } from "./harness.ts";

const signal = new AbortController().signal;

test("loses none of thousands of requests and open streams while routes switch, rolling and by handover", async () => {
  await using site = await startGateway();
  const { gateway } = site;
  let generation = 0;
  const start = async () => {
    generation += 1;
    const revisionId = `rev-${generation}`;
    const agent = await startTarget((request, response) => serve(request.url ?? "", revisionId, response));
    return { agent, revisionId, target: agent.target(`replica-${generation}`) };
  };
  let serving = await start();
  gateway.setRoute(route([serving.target], { revisionId: serving.revisionId }));

  const load = startLoad(site.port);
  for (let round = 0; round < 24; round += 1) {
    const done = load.answered();
    await eventually(load.answered, (answered) => answered >= done + 100);
    const old = serving;
    if (round % 2 === 0) {
      // Rolling: the new replica is up beside the old one.
      serving = await start();
      gateway.setRoute(route([serving.target], { revisionId: serving.revisionId }));
      assert.equal(await gateway.drained(old.target.replicaId, { timeoutMs: 30_000, signal }), true);
      await old.agent.stop();
    } else {
      // Handover: the old replica ends before the new one starts. Requests wait in between.
      gateway.setRoute(route([old.target], { revisionId: old.revisionId, state: "held" }));
      assert.equal(await gateway.drained(old.target.replicaId, { timeoutMs: 30_000, signal }), true);
      await old.agent.stop();
      serving = await start();
      gateway.setRoute(route([serving.target], { revisionId: serving.revisionId }));
    }
  }
  const { requests, streams, wrong } = await load.stop();
  await serving.agent.stop();

  assert.deepEqual(wrong, []);
  assert.equal(requests > 2_000 && streams > 24, true, `${requests} requests, ${streams} streams`);
  const counts = gateway.counts()[0] ?? assert.fail();
  assert.equal(counts.answers["2xx"], requests + streams);
  assert.deepEqual(
    Object.values(counts.failures).filter((count) => count > 0),
    [],
  );
  assert.deepEqual([counts.inFlight, counts.waiting], [0, 0]);
});

test("spreads requests evenly over replicas and avoids busy ones", async () => {
  const served = { a: 0, b: 0, c: 0 };
  const held: ServerResponse[] = [];
  const agentNamed = (name: keyof typeof served) =>
    startTarget((request, response) => {
      served[name] += 1;
      if (request.url === "/hold") held.push(response);
      else response.end();
    });
  await using a = await agentNamed("a");
  await using b = await agentNamed("b");
  await using c = await agentNamed("c");
  await using site = await startGateway();
  site.gateway.setRoute(route([a.target("a"), b.target("b"), c.target("c")]));

  for (let at = 0; at < 30; at += 1) await fetch(`${site.url}/d/demo/`);
  assert.deepEqual(served, { a: 10, b: 10, c: 10 });

  using _busy = await openRaw(site.port, "GET /d/demo/hold HTTP/1.1\r\nHost: a\r\n\r\n");
  await eventually(
    () => held.length,
    (length) => length === 1,
  );
  const busy = ["a", "b", "c"].find((id) => site.gateway.inFlight(id) === 1) as keyof typeof served;
  for (let at = 0; at < 30; at += 1) await fetch(`${site.url}/d/demo/`);
  assert.equal(served[busy], 11);
});

/** Short answers, and streams of ten events. Each contains the revision, so that a mixed answer would show. */
function serve(url: string, revisionId: string, response: ServerResponse): void {
  if (url.startsWith("/ping")) return void response.end(revisionId);
  response.writeHead(200, { "content-type": "text/event-stream" });
  let left = 10;
  const timer = setInterval(() => {
    response.write(`data: ${revisionId}\n\n`);
    left -= 1;
    if (left > 0) return;
    clearInterval(timer);
    response.end();
  }, 5);
}

/** Eight clients that send requests all the time and four that stream. Each checks every answer. */
function startLoad(port: number) {
  const agent = new Agent({ keepAlive: true });
  const wrong: string[] = [];
  let isRunning = true;
  let requests = 0;
  let streams = 0;
  const ask = (path: string) =>
    new Promise<void>((resolve) => {
      const request = get({ host: "127.0.0.1", port, path: `/d/demo${path}`, agent }, async (answer) => {
        try {
          const revision = answer.headers["x-pierhead-revision"];
          const body = (await readBody(answer)).toString();
          const expected = path === "/ping" ? revision : `data: ${revision}\n\n`.repeat(10);
          if (answer.statusCode !== 200 || body !== expected) wrong.push(`${answer.statusCode} ${revision} ${body}`);
        } catch (error) {
          wrong.push(`${path}: ${error}`);
        }
        resolve();
      });
      request.on("error", (error) => {
        wrong.push(`${path}: ${error}`);
        resolve();
      });
    });
  const pinging = async () => {
    for (; isRunning; requests += 1) await ask("/ping");
  };
  const streaming = async () => {
    for (; isRunning; streams += 1) await ask("/stream");
  };
  const clients = [...Array.from({ length: 8 }, pinging), ...Array.from({ length: 4 }, streaming)];
  return {
    answered: () => requests,
    async stop() {
      isRunning = false;
      await Promise.all(clients);
      agent.destroy();
      return { requests, streams, wrong };
    },
  };
}
