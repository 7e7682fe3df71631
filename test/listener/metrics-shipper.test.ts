import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { createListenerClient, type ListenerSession } from "../../src/client/listener-client.ts";
import type { ReplicaLoad, ReplicaUsage, RunCounts } from "../../src/compute/compute.ts";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import { TrafficCounter, type TrafficCounts } from "../../src/gateway/counts.ts";
import type { RunningDeployment } from "../../src/listener/fleet.ts";
import { MetricsShipper } from "../../src/listener/shipping/metrics-shipper.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { ControlPlane } from "./control-plane.ts";
import { VirtualClock } from "./virtual-world.ts";

const minuteMs = 60_000;
/** The jitter: a round begins at most this long after its minute. */
const roundMs = 2 * minuteMs;

test("samples the changes since the previous round, and keeps samples while the control plane is away", async () => {
  const site = await startShipping();
  await site.clock.pass(roundMs);
  const first = site.controlPlane.samples.length;
  assert.ok(first >= 1);
  assert.ok(site.controlPlane.samples.every(({ requests, restarts }) => requests === 0 && restarts === 0));

  site.traffic.requests += 3;
  site.traffic.countAnswer(200);
  site.traffic.countAnswer(502);
  site.traffic.recordLatency(3);
  site.traffic.recordLatency(40);
  site.deployment.restarts = 2;
  site.cpuSeconds += 30;
  site.controlPlane.goAway();
  await site.clock.pass(3 * minuteMs);
  assert.equal(site.controlPlane.samples.length, first, "nothing arrives");
  site.controlPlane.isAway = false;
  await site.clock.pass(roundMs);

  const later = site.controlPlane.samples.slice(first);
  assert.ok(later.length >= 4);
  const total = (of: (sample: (typeof later)[number]) => number) => later.reduce((sum, sample) => sum + of(sample), 0);
  assert.deepEqual(
    [total(({ requests }) => requests), total(({ errors }) => errors), total(({ restarts }) => restarts)],
    [3, 1, 2],
  );
  assert.equal(Math.round(total(({ cpu_cores, interval_ms }) => (cpu_cores ?? 0) * (interval_ms / 1_000))), 30);
  assert.deepEqual(
    [total(({ latency_counts }) => latency_counts[0] ?? 0), total(({ latency_counts }) => latency_counts[3] ?? 0)],
    [1, 1],
  );
  assert.ok(later.every(({ latency_counts }) => latency_counts.length === latencyBoundsMs.length + 1));
  assert.deepEqual([later[0]?.replicas, later[0]?.memory_mib], [1, 128]);
  const times = site.controlPlane.samples.map(({ at }) => Date.parse(at));
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
  site.shipper.close();
});

test("keeps a sample of every deployment of one round, however many there are", async () => {
  const site = await startShipping();
  site.others = Array.from({ length: 10_000 }, () => ({ deploymentId: randomUUID(), replicaIds: ["b"], restarts: 0 }));
  await site.clock.pass(roundMs);
  const sampled = new Set(site.controlPlane.samples.map(({ deployment_id }) => deployment_id));
  assert.equal(sampled.size, 10_001);
  site.shipper.close();
});

test("samples a deployment that is down while it has requests, and its restarts once", async () => {
  const site = await startShipping();
  const total = (of: "requests" | "errors" | "restarts") =>
    site.controlPlane.samples.reduce((sum, sample) => sum + sample[of], 0);
  await site.clock.pass(roundMs);
  site.deployment.restarts = 3;
  await site.clock.pass(roundMs);
  assert.equal(total("restarts"), 3);

  site.deployment.replicaIds = [];
  site.traffic.requests += 2;
  site.traffic.countAnswer(503);
  site.traffic.countAnswer(503);
  await site.clock.pass(roundMs);
  assert.deepEqual([total("requests"), total("errors")], [2, 2], "the gateway's answers count");
  const count = site.controlPlane.samples.length;
  await site.clock.pass(roundMs);
  assert.equal(site.controlPlane.samples.length, count, "no sample of a deployment that is down and has no requests");

  site.deployment.replicaIds = ["b"];
  site.deployment.restarts = 4;
  await site.clock.pass(roundMs);
  assert.equal(total("restarts"), 4);
  site.shipper.close();
});

test("samples only the gateway's answers for a deployment without replicas", async () => {
  const site = await startShipping();
  site.isListed = false;
  await site.clock.pass(roundMs);
  site.traffic.requests += 1;
  site.traffic.countAnswer(503);
  await site.clock.pass(roundMs);
  const samples = site.controlPlane.samples.map(({ replicas, requests, errors }) => [replicas, requests, errors]);
  assert.deepEqual(samples, [[0, 1, 1]]);
  site.shipper.close();
});

test("counts in full after counters restarted from zero, even when they have reached the old value again", async () => {
  const site = await startShipping();
  site.traffic.requests += 2;
  for (const status of [502, 502]) site.traffic.countAnswer(status);
  await site.clock.pass(roundMs);
  const first = site.controlPlane.samples.length;
  site.traffic = new TrafficCounter();
  site.traffic.requests += 3;
  site.traffic.countAnswer(200);
  site.traffic.recordLatency(3);
  await site.clock.pass(roundMs);
  const [sample] = site.controlPlane.samples.slice(first).filter(({ requests }) => requests > 0);
  assert.deepEqual([sample?.requests, sample?.errors, sample?.latency_counts[0]], [3, 0, 1]);
  site.shipper.close();
});

test("ships nothing after the listener has stopped leading", async () => {
  const site = await startShipping();
  await site.clock.pass(roundMs);
  const count = site.controlPlane.samples.length;
  site.shipper.follow(null);
  await site.clock.pass(10 * minuteMs);
  assert.equal(site.controlPlane.samples.length, count);
});

test("uses the load that an engine measures itself, and reports unmeasured values as null, not zero", async () => {
  const site = await startShipping();
  const newest = () => {
    const sample = site.controlPlane.samples.at(-1);
    return [sample?.replicas, sample?.cpu_cores, sample?.memory_mib];
  };
  site.deployment.replicaIds = ["a", "b", "new"];
  const load = { cpuCores: 0.25, memoryMib: 100 };
  site.used = () => ["a", "b", "of-another"].map((replicaId) => ({ replicaId, ...load }));
  await site.clock.pass(roundMs);
  assert.deepEqual(newest(), [3, 0.5, 200]);
  site.used = () => [{ replicaId: "of-another", ...load }];
  await site.clock.pass(roundMs);
  assert.deepEqual(newest(), [3, null, null], "the engine has measured none of them yet");
  site.used = () => null;
  await site.clock.pass(roundMs);
  assert.deepEqual(newest(), [3, null, null]);
  site.shipper.close();
});

test("ships the runs of the first replica that reports them, and the growth of its totals", async () => {
  const site = await startShipping();
  const newest = () => {
    const sample = site.controlPlane.samples.at(-1);
    return [sample?.runs_waiting, sample?.runs_running, sample?.runs_failed, sample?.runs_recovered];
  };
  site.deployment.replicaIds = ["without", "busy", "a"];
  await site.clock.pass(roundMs);
  assert.deepEqual(newest(), [null, null, null, null]);
  site.runs = { pending: 4, running: 10, failed: 100, recovered: 7 };
  await site.clock.pass(roundMs);
  assert.deepEqual(newest(), [4, 10, 0, 0], "totals of an earlier time");
  site.runs = undefined;
  await site.clock.pass(roundMs);
  assert.deepEqual(newest(), [null, null, null, null], "no answer");
  site.runs = { pending: 0, running: 1, failed: 103, recovered: 8 };
  const before = site.controlPlane.samples.length;
  await site.clock.pass(roundMs);
  const failed = site.controlPlane.samples.slice(before).map((sample) => sample.runs_failed);
  assert.equal(failed[0], 3);
  site.runs = { pending: 0, running: 0, failed: 2, recovered: null };
  await site.clock.pass(roundMs);
  const later = site.controlPlane.samples.slice(before + failed.length);
  assert.deepEqual([later[0]?.runs_failed, later[0]?.runs_recovered], [2, null], "a new queue");
  assert.equal(site.asked.filter((replicaId) => replicaId === "without").length, 1, "asked once");
  site.shipper.close();
});

test("ships the tokens that a server has counted since the round before, also those of an agent that slept in between", async () => {
  const site = await startShipping();
  const tokens = () => site.controlPlane.samples.map((sample) => [sample.input_tokens, sample.output_tokens]);
  const round = async (counted: { input: number; output: number } | undefined) => {
    site.runs = { pending: 0, running: 0, failed: 0, recovered: 0, ...(counted && { tokens: counted }) };
    const before = tokens().length;
    await site.clock.pass(roundMs);
    return tokens()[before];
  };
  assert.deepEqual(await round(undefined), [null, null]);
  assert.deepEqual(await round({ input: 500, output: 40 }), [500, 40], "the first tokens of this agent");
  site.isListed = false;
  await site.clock.pass(roundMs);
  site.isListed = true;
  assert.deepEqual(await round({ input: 700, output: 45 }), [200, 5]);
  assert.deepEqual(await round({ input: 30, output: 2 }), [30, 2], "a new queue");
  site.shipper.close();
});

test("remembers the tokens of the 10,000 agents without replicas that ran last, and so no deleted ones without end", async () => {
  const site = await startShipping();
  const agent = (deploymentId: string) => ({ deploymentId, replicaIds: ["a"], restarts: 0 });
  const tokensOf = async (agents: RunningDeployment[], input: number) => {
    site.others = agents;
    site.runs = { pending: 0, running: 0, failed: 0, recovered: 0, tokens: { input, output: 0 } };
    const before = site.controlPlane.samples.length;
    await site.clock.pass(roundMs);
    const samples = site.controlPlane.samples.slice(before).filter((one) => one.input_tokens);
    return new Map(samples.map((one) => [one.deployment_id, one.input_tokens]));
  };
  site.isListed = false;
  const [first, later] = [agent(randomUUID()), agent(randomUUID())];
  await tokensOf([first], 100);
  await tokensOf([later], 100);
  assert.deepEqual(await tokensOf([first, later], 130), new Map([first, later].map((one) => [one.deploymentId, 30])));
  await tokensOf([later], 130);
  await tokensOf(
    Array.from({ length: 9_999 }, () => agent(randomUUID())),
    7,
  );
  await tokensOf([], 7);
  assert.deepEqual(await tokensOf([first, later], 150), new Map([[later.deploymentId, 20]]));
  site.shipper.close();
});

test("ships the use of each replica where several run", async () => {
  const site = await startShipping();
  site.used = () => ["a", "b"].map((replicaId, at) => ({ replicaId, cpuCores: at + 0.5, memoryMib: 100 + at }));
  await site.clock.pass(roundMs);
  assert.equal(site.controlPlane.samples.at(-1)?.replica_usage, undefined, "one replica");
  site.deployment.replicaIds = ["a", "b"];
  await site.clock.pass(roundMs);
  assert.deepEqual(site.controlPlane.samples.at(-1)?.replica_usage, [
    { replica_id: "a", cpu_cores: 0.5, memory_mib: 100 },
    { replica_id: "b", cpu_cores: 1.5, memory_mib: 101 },
  ]);
  site.shipper.close();
});

/** A shipper on virtual time with one deployment whose counters the test changes. */
async function startShipping() {
  const clock = new VirtualClock(3);
  const controlPlane = new ControlPlane(clock);
  const client = createListenerClient(controlPlane.send);
  const session: ListenerSession = await client.openSession(
    { instance_id: "one", version: "1", protocols: [1], compute_type: "simulated" },
    new AbortController().signal,
  );
  const deployment: RunningDeployment = { deploymentId: randomUUID(), replicaIds: ["a"], restarts: 0 };
  const traffic = new TrafficCounter();
  const used = (): (ReplicaUsage | ReplicaLoad)[] | null => [
    { replicaId: "a", cpuSeconds: site.cpuSeconds, memoryMib: 128 },
  ];
  const others: RunningDeployment[] = [];
  const asked: string[] = [];
  const measured = { used, cpuSeconds: 5, asked, runs: undefined as RunCounts | undefined };
  const site = { clock, controlPlane, deployment, others, traffic, ...measured, isListed: true };
  const counts = (): TrafficCounts[] => [
    { slug: "a", deploymentId: deployment.deploymentId, revisionId: null, waiting: 0, ...site.traffic.read() },
  ];
  const shipper = new MetricsShipper({
    readUsage: async () => site.used(),
    readRunCounts: async (replicaId) => {
      asked.push(replicaId);
      return replicaId === "without" ? null : replicaId === "a" ? site.runs : undefined;
    },
    traffic: { counts },
    clock,
    logger: createLogger("silent"),
    running: () => [...(site.isListed ? [{ ...deployment }] : []), ...site.others],
    onStale: () => assert.fail("stale"),
  });
  shipper.follow(session);
  return Object.assign(site, { shipper });
}
