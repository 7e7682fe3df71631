import assert from "node:assert/strict";
import { test } from "node:test";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import { eventually, route, startGateway, startTarget } from "./harness.ts";

test("counts requests, answers, bytes and latencies per deployment, and returns immutable copies", async () => {
  await using agent = await startTarget((request, response) => {
    request.resume();
    response.statusCode = Number(request.url?.slice(1));
    request.on("end", () => response.end("12345"));
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  site.gateway.setRoute(route([], { slug: "idle", deploymentId: "dep-2", revisionId: null }));
  for (const status of [200, 201, 307, 404, 500, 503]) {
    const answer = await fetch(`${site.url}/d/demo/${status}`, { method: "POST", body: "abc", redirect: "manual" });
    assert.equal(answer.status, status);
    await answer.text();
  }
  await eventually(
    () => site.gateway.health().inFlight,
    (count) => count === 0,
  );

  const [demo, idle] = site.gateway.counts();
  assert.deepEqual([demo?.slug, demo?.deploymentId, demo?.revisionId, demo?.requests], ["demo", "dep-1", "rev-1", 6]);
  assert.deepEqual(demo?.answers, { "1xx": 0, "2xx": 2, "3xx": 1, "4xx": 1, "5xx": 2 });
  assert.deepEqual([demo?.bytesIn, demo?.bytesOut], [18, 30]);
  assert.equal(demo?.latency.count, 6);
  assert.equal(demo?.latency.counts.length, latencyBoundsMs.length + 1);
  assert.equal(idle?.requests, 0);
  demo?.latency.counts.fill(0);
  assert.equal(site.gateway.counts()[0]?.latency.count, 6);
  assert.deepEqual(site.gateway.health().routes, { open: 2, held: 0, asleep: 0, closed: 0 });
  assert.equal(structuredClone(demo)?.slug, "demo");
});

test("starts the counts at zero when a slug passes to another deployment", async () => {
  await using site = await startGateway();
  site.gateway.setRoute(route([]));
  await fetch(`${site.url}/d/demo/`);
  assert.equal(site.gateway.counts()[0]?.requests, 1);
  site.gateway.setRoute(route([], { revisionId: "rev-2" }));
  assert.equal(site.gateway.counts()[0]?.requests, 1);
  site.gateway.setRoute(route([], { deploymentId: "dep-2" }));
  assert.deepEqual(
    site.gateway.counts().map(({ deploymentId, requests }) => [deploymentId, requests]),
    [["dep-2", 0]],
  );
});
