import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { TrafficCounter } from "../../src/gateway/counts.ts";
import { deploymentMetrics, maySeeDeployments } from "../../src/server/deployment-metrics.ts";

test("reports deployments in the Prometheus text format with cumulative buckets", () => {
  const tally = new TrafficCounter();
  tally.requests = 2;
  tally.countAnswer(200);
  tally.recordLatency(4);
  tally.recordLatency(400_000);
  const one = { deploymentId: "6b1f0f64", slug: "support-bot", revisionId: null, waiting: 0, ...tally.read() };
  const level = { deploymentId: "6b1f0f64", slug: "support-bot", replicas: 2, cpuCores: 0.5, memoryMib: null };
  const text = deploymentMetrics([one], [level]);
  const named = 'deployment_id="6b1f0f64",deployment="support-bot"';
  for (const line of [
    "# TYPE pierhead_deployment_requests_total counter",
    `pierhead_deployment_requests_total{${named}} 2`,
    `pierhead_deployment_answers_total{${named},status="2xx"} 1`,
    `pierhead_deployment_request_duration_seconds_bucket{${named},le="0.005"} 1`,
    `pierhead_deployment_request_duration_seconds_bucket{${named},le="300"} 1`,
    `pierhead_deployment_request_duration_seconds_bucket{${named},le="+Inf"} 2`,
    `pierhead_deployment_request_duration_seconds_sum{${named}} 400.004`,
    `pierhead_deployment_cpu_cores{${named}} 0.5`,
  ]) {
    assert.ok(text.split("\n").includes(line), `${line}\n\n${text}`);
  }
  assert.equal(text.includes("memory_mebibytes{"), false);
  for (const line of text.trim().split("\n")) assert.match(line, /^(# (HELP|TYPE) \S+ .+|\w+\{[^{}]+\} [\d.]+)$/);
});

test("shows deployment names to callers with the configured token, or on loopback if none is configured", () => {
  const request = (authorization?: string) => ({ headers: { authorization } }) as IncomingMessage;
  assert.equal(maySeeDeployments(request(), { isLoopback: true, token: undefined }), true);
  assert.equal(maySeeDeployments(request(), { isLoopback: false, token: undefined }), false);
  for (const isLoopback of [true, false]) {
    assert.equal(maySeeDeployments(request(), { isLoopback, token: "t" }), false);
    assert.equal(maySeeDeployments(request("Bearer x"), { isLoopback, token: "t" }), false);
    assert.equal(maySeeDeployments(request("Bearer t"), { isLoopback, token: "t" }), true);
  }
});
