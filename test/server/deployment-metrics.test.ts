import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { TrafficCounter } from "../../src/gateway/counts.ts";
import { deploymentMetrics, metricsRights } from "../../src/server/deployment-metrics.ts";

test("reports deployments in the Prometheus text format with cumulative buckets", () => {
  const tally = new TrafficCounter();
  tally.requests = 2;
  tally.countAnswer(200);
  tally.recordLatency(4);
  tally.recordLatency(400_000);
  const one = { deploymentId: "6b1f0f64", slug: "support-bot", revisionId: null, waiting: 0, ...tally.read() };
  const runs = {
    runsWaiting: 12,
    runsRunning: 3,
    runsFailed: 1,
    runsRecovered: null,
    inputTokens: 900,
    outputTokens: 70,
  };
  const level = {
    deploymentId: "6b1f0f64",
    slug: "support-bot",
    health: "live" as const,
    replicas: 2,
    cpuCores: 0.5,
    memoryMib: null,
    ...runs,
  };
  const failed = {
    ...level,
    slug: "broken",
    health: "failed",
    replicas: null,
    cpuCores: null,
    runsWaiting: null,
    inputTokens: null,
    outputTokens: null,
  } as const;
  const text = deploymentMetrics([one], [level, failed]);
  const named = 'deployment_id="6b1f0f64",deployment="support-bot"';
  for (const line of [
    "# TYPE pierhead_deployment_requests_total counter",
    `pierhead_deployment_requests_total{${named}} 2`,
    `pierhead_deployment_answers_total{${named},status="2xx"} 1`,
    `pierhead_deployment_request_duration_seconds_bucket{${named},le="0.005"} 1`,
    `pierhead_deployment_request_duration_seconds_bucket{${named},le="300"} 1`,
    `pierhead_deployment_request_duration_seconds_bucket{${named},le="+Inf"} 2`,
    `pierhead_deployment_request_duration_seconds_sum{${named}} 400.004`,
    `pierhead_deployment_health{${named},health="live"} 1`,
    'pierhead_deployment_health{deployment_id="6b1f0f64",deployment="broken",health="failed"} 1',
    `pierhead_deployment_cpu_cores{${named}} 0.5`,
    `pierhead_deployment_runs_waiting{${named}} 12`,
    `pierhead_deployment_runs_failed{${named}} 1`,
    `pierhead_deployment_input_tokens{${named}} 900`,
    `pierhead_deployment_output_tokens{${named}} 70`,
  ]) {
    assert.ok(text.split("\n").includes(line), `${line}\n\n${text}`);
  }
  assert.equal(text.includes("memory_mebibytes{"), false);
  assert.equal(text.match(/_tokens\{/g)?.length, 2, "a server that reports no tokens has no lines of them");
  for (const line of text.trim().split("\n")) assert.match(line, /^(# (HELP|TYPE) \S+ .+|\w+\{[^{}]+\} [\d.]+)$/);
});

test("shows deployments to callers with the configured token, and to anonymous ones only if no token is configured", () => {
  const request = (authorization?: string) => ({ headers: { authorization } }) as IncomingMessage;
  assert.equal(metricsRights(request(), { isAnonymous: true, token: undefined }), "all");
  assert.equal(metricsRights(request("Bearer "), { isAnonymous: false, token: undefined }), "none");
  for (const isAnonymous of [true, false]) {
    const otherwise = isAnonymous ? "own" : "none";
    assert.equal(metricsRights(request(), { isAnonymous, token: "t" }), otherwise);
    assert.equal(metricsRights(request("Bearer x"), { isAnonymous, token: "t" }), otherwise);
    assert.equal(metricsRights(request("Bearer t"), { isAnonymous, token: "t" }), "all");
  }
});
