import assert from "node:assert/strict";
import { test } from "node:test";
import { type GatewayReading, GatewayTraffic } from "../../src/listener/clusters/gateway-traffic.ts";
import { untilSleepMs } from "../../src/listener/clusters/sleep.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { VirtualClock } from "./virtual-world.ts";

const reading = (instance_id: string, requests: number, open = 0, idle_ms: number | null = 0): GatewayReading => ({
  ...{ instance_id, uptime_ms: 1 },
  deployments: [{ deployment_id: "d", requests, failed: 0, cut: 0, latency_counts: [requests], open, idle_ms }],
});

function follow() {
  const clock = new VirtualClock(1);
  const site = { clock, readings: [] as GatewayReading[], isComplete: true };
  const read = async () => ({ readings: site.readings, isComplete: site.isComplete });
  const traffic = new GatewayTraffic({ read, clock, logger: createLogger("silent") });
  return { ...site, site, traffic, requests: () => traffic.counts()[0]?.requests ?? 0 };
}

test("sums the requests of all replicas, while replicas come, go and start again", async () => {
  const { site, clock, traffic, requests } = follow();
  site.readings = [{ ...reading("a", 1_000), uptime_ms: 60_000 }];
  traffic.follow(true);
  await clock.pass(1);
  assert.equal(requests(), 0, "the instance that led before has shipped them");
  const steps: [GatewayReading[], number][] = [
    [[reading("a", 1_003), reading("b", 2)], 5],
    [[reading("b", 4)], 7],
    [[reading("a", 1_010), reading("b", 4)], 14],
    [[reading("c", 1), reading("b", 3)], 18],
    // It was there all the time, but its name was not known.
    [[{ ...reading("d", 500), uptime_ms: 600_000 }], 18],
    [[{ ...reading("d", 501), uptime_ms: 605_000 }], 19],
  ];
  for (const [readings, sum] of steps) {
    site.readings = readings;
    await clock.pass(5_000);
    assert.equal(requests(), sum);
  }
  assert.equal(traffic.counts()[0]?.latency.counts[0], 19);
  traffic.follow(false);
  assert.deepEqual(traffic.counts(), []);
});

test("counts no request twice when a replica did not answer for a long time", async () => {
  const { site, clock, traffic, requests } = follow();
  traffic.follow(true);
  site.readings = [reading("a", 5), reading("b", 2)];
  await clock.pass(5_000);
  assert.equal(requests(), 7);
  site.readings = [reading("b", 2)];
  await clock.pass(700_000);
  site.readings = [{ ...reading("a", 6), uptime_ms: 705_000 }, reading("b", 2)];
  await clock.pass(5_000);
  assert.equal(requests(), 7);
  site.readings = [{ ...reading("a", 9), uptime_ms: 710_000 }, reading("b", 2)];
  await clock.pass(5_000);
  assert.equal(requests(), 10);
  traffic.follow(false);
});

test("knows how long a deployment is idle only while every replica of the gateway answers", async () => {
  const { site, clock, traffic } = follow();
  site.readings = [reading("a", 1, 0, 60_000), reading("b", 1, 0, 20_000)];
  assert.equal(traffic.activityOf("d"), null);
  traffic.follow(true);
  await clock.pass(1_000);
  const activity = traffic.activityOf("d");
  assert.equal(activity?.isBusy, false);
  assert.equal(Math.round((clock.monotonicMs() - (activity?.lastRequestAtMs ?? 0)) / 1_000), 21);
  assert.deepEqual(traffic.activityOf("other"), { lastRequestAtMs: null, isBusy: false });
  site.readings = [reading("a", 1, 1), reading("b", 1)];
  await clock.pass(5_000);
  assert.equal(traffic.activityOf("d")?.isBusy, true);
  site.isComplete = false;
  await clock.pass(40_000);
  assert.equal(traffic.activityOf("d"), null);
  traffic.follow(false);
});

test("puts a deployment to sleep when its idle time has passed since its last request or its start", () => {
  const times = { idleAfterMs: 60_000, activeSinceMs: 100_000, nowMs: 130_000 };
  assert.equal(untilSleepMs({ lastRequestAtMs: null, isBusy: false }, times), 30_000);
  assert.equal(untilSleepMs({ lastRequestAtMs: 120_000, isBusy: false }, times), 50_000);
  assert.equal(untilSleepMs({ lastRequestAtMs: 40_000, isBusy: false }, { ...times, nowMs: 160_000 }), 0);
  assert.notEqual(untilSleepMs({ lastRequestAtMs: null, isBusy: true }, { ...times, nowMs: 900_000 }), 0);
  assert.notEqual(untilSleepMs(null, { ...times, nowMs: 900_000 }), 0);
});
