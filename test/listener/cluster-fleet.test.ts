import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../src/base/clock.ts";
import type { ClusterCompute, ClusterStatus } from "../../src/compute/cluster.ts";
import type { Assignment, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { ClusterFleet, type ClusterFleetOptions } from "../../src/listener/clusters/cluster-fleet.ts";
import { causeOf } from "../../src/listener/clusters/cluster-report.ts";
import type { Secrets } from "../../src/listener/session/secrets.ts";
import type { Snapshot } from "../../src/listener/session/snapshot.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually, newRun } from "./harness.ts";

test("does not fail a new target for problems that were observed for the previous one", async () => {
  const [first, next] = [runInCluster(), runInCluster()];
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<ClusterStatus>();
  let inspections = 0;
  const fleet = startFleet({
    async inspect() {
      inspections += 1;
      if (inspections > 1) return { ...nothingThere, revisionId: next.revision_id };
      asked.resolve();
      return answer.promise;
    },
  });
  const assignment = assignmentOf({ target: first });
  fleet.fleet.assign([assignment]);
  await asked.promise;
  fleet.fleet.assign([{ ...assignment, generation: 2, target: next }]);
  const trouble = { weight: "now" as const, cause: causeOf("StartError", "no such command") };
  answer.resolve({ ...nothingThere, revisionId: first.revision_id, problems: [trouble] });
  await eventually(
    () => fleet.reports.findLast(({ generation }) => generation === 2),
    (report) => report !== undefined && inspections > 1,
  );
  const ofNext = fleet.reports.filter(({ target_revision_id: id }) => id === next.revision_id);
  assert.deepEqual(
    ofNext.map(({ target_phase, cause }) => [target_phase, cause]),
    [["starting", null]],
  );
  fleet.fleet.stepDown(new Error("the test is over"));
});

test("backs off from a cluster that does not answer, also after the target was given up for it", async () => {
  let applies = 0;
  const fleet = startFleet({
    async apply() {
      applies += 1;
      await setImmediate();
      // Without a back-off it would continue forever.
      if (applies === 50) fleet.fleet.stepDown(new Error("too often"));
      throw new Error("cluster does not answer");
    },
  });
  const target = runInCluster();
  fleet.fleet.assign([assignmentOf({ target, serving: runInCluster() })]);
  await eventually(fleet.nextWakeMs, (delayMs) => delayMs !== null);
  assert.equal(applies, 1);
  fleet.wakeAfter(target.start_timeout_ms + 60_000);
  await eventually(
    () => ({ delayMs: fleet.nextWakeMs(), applies }),
    (now) => now.delayMs !== null || now.applies >= 50,
  );
  assert.equal(fleet.reports.at(-1)?.target_phase, "failed");
  assert.equal(applies, 3, "the target once more, then the serving revision");
  fleet.fleet.stepDown(new Error("the test is over"));
});

test("tells the engine whether a revision is new or the serving one to go back to", async () => {
  const applied: [string, boolean][] = [];
  const [target, serving] = [runInCluster(), runInCluster()];
  const trouble = { weight: "now" as const, cause: causeOf("StartError", "no such command") };
  const fleet = startFleet({
    async apply({ revisionId, isServing }) {
      applied.push([revisionId, isServing]);
      return { waitingFor: null, held: null };
    },
    inspect: async () => ({ ...nothingThere, problems: [trouble] }),
  });
  fleet.fleet.assign([assignmentOf({ target, serving })]);
  await eventually(
    () => applied,
    ({ length }) => length === 2,
  );
  assert.deepEqual(applied, [
    [target.revision_id, false],
    [serving.revision_id, true],
  ]);
  fleet.fleet.stepDown(new Error("the test is over"));
});

test("gives a deployment the address at which it is called", async () => {
  const target: RevisionRun = { ...runInCluster(), env: { LANGGRAPH_API_URL: "https://support.example.com/v2" } };
  const given: Record<string, string>[] = [];
  const fleet = startFleet({
    async apply({ secrets }) {
      given.push(secrets);
      return { waitingFor: null, held: null };
    },
  });
  fleet.fleet.assign([assignmentOf({ target })]);
  const [secrets] = await eventually(
    () => given,
    ({ length }) => length > 0,
  );
  assert.deepEqual(
    [secrets?.["PUBLIC_URL"], secrets?.["PUBLIC_HOST"]],
    ["https://support.example.com/v2", "support.example.com"],
  );
  fleet.fleet.stepDown(new Error("the test is over"));
});

test("applies a serving revision again that can no longer start, because its Secret may be gone", async () => {
  let applies = 0;
  const serving = runInCluster();
  const trouble = { weight: "now" as const, cause: causeOf("StartError", 'secret "agent-env-1" not found') };
  const fleet = startFleet({
    async apply() {
      applies += 1;
      return { waitingFor: null, held: null };
    },
    inspect: async () => ({ ...nothingThere, revisionId: serving.revision_id, problems: [trouble] }),
  });
  fleet.fleet.assign([assignmentOf({ target: serving, serving })]);
  await eventually(fleet.nextWakeMs, (delayMs) => delayMs !== null);
  fleet.wakeAfter(2_000);
  await eventually(fleet.nextWakeMs, (delayMs) => delayMs !== null);
  assert.equal(applies, 1, "not in each pass");
  fleet.wakeAfter(60_000);
  await eventually(fleet.nextWakeMs, (delayMs) => delayMs !== null);
  assert.equal(applies, 2);
  fleet.fleet.stepDown(new Error("the test is over"));
});

test("stops the pods of a first revision that failed, and starts those of the next one", async () => {
  const calls: string[] = [];
  const [first, next] = [runInCluster(), runInCluster()];
  const trouble = { weight: "now" as const, cause: causeOf("StartError", "no such command") };
  const fleet = startFleet({
    async apply({ revisionId }) {
      calls.push(`apply ${revisionId}`);
      return { waitingFor: null, held: null };
    },
    async inspect() {
      const replicas = calls.length === 2 ? [endingPod(first.revision_id)] : [];
      return { ...nothingThere, problems: calls.length > 2 ? [] : [trouble], replicas };
    },
    async stop({ generation }) {
      calls.push(`stop ${generation}`);
    },
  });
  const assignment = assignmentOf({ target: first });
  fleet.fleet.assign([assignment]);
  await eventually(
    () => calls,
    ({ length }) => length === 2,
  );
  // While a pod is still ending, it is in the reports.
  await eventually(
    () => fleet.reports.at(-1),
    (report) => report?.replicas[0]?.phase === "draining" && report.target_phase === "failed",
  );
  await eventually(fleet.nextWakeMs, (delayMs) => delayMs === 2_000);
  fleet.wakeAfter(2_000);
  await eventually(
    () => fleet.reports.at(-1),
    (report) => report?.replicas.length === 0,
  );
  fleet.fleet.assign([{ ...assignment, generation: 2, target: null }]);
  await eventually(
    () => calls,
    ({ length }) => length === 4,
  );
  await eventually(
    () => fleet.reports.at(-1),
    (report) => report?.generation === 2 && report.target_phase === "none",
  );
  fleet.fleet.assign([{ ...assignment, generation: 3, target: next }]);
  await eventually(
    () => calls,
    ({ length }) => length === 5,
  );
  assert.deepEqual(fleet.reports.find(({ target_phase }) => target_phase === "failed")?.cause, trouble.cause);
  assert.deepEqual(calls, [`apply ${first.revision_id}`, "stop 1", "stop 1", "stop 2", `apply ${next.revision_id}`]);
  fleet.fleet.stepDown(new Error("the test is over"));
});

test("reports what a slow replica waits for during a rollout only, not for one that an autoscaler adds", async () => {
  const waits = { weight: "wait" as const, cause: causeOf("NotHealthy", "its health check does not pass yet") };
  const [serving, target] = [runInCluster(), runInCluster()];
  const fleet = startFleet({ inspect: async () => ({ ...nothingThere, problems: [waits] }) });
  const assignment = assignmentOf({ target: serving, serving });
  fleet.fleet.assign([assignment]);
  await eventually(
    () => fleet.reports,
    ({ length }) => length === 1,
  );
  fleet.fleet.assign([{ ...assignment, generation: 2, target }]);
  await eventually(
    () => fleet.reports,
    ({ length }) => length === 2,
  );
  assert.deepEqual(
    fleet.reports.map(({ cause }) => cause?.message ?? null),
    [null, "its health check does not pass yet"],
  );
  fleet.fleet.stepDown(new Error("the test is over"));
});

test("reports an exit of a revision that serves, but not the exits before its rollout succeeded", async () => {
  const target = runInCluster();
  const exitAt = (at: string) => ({
    ...{ id: at, replica_id: "agent-1", revision_id: target.revision_id, at, restarts: 1 },
    cause: causeOf("Exited", "ended"),
  });
  let lastExit = exitAt("2026-01-01T00:00:00Z");
  const fleet = startFleet({
    inspect: async () => ({ ...nothingThere, revisionId: target.revision_id, isReady: true, lastExit }),
  });
  const assignment = assignmentOf({ target });
  const reported = async (generation: number) => {
    fleet.fleet.assign([{ ...assignment, generation, ...(generation > 1 && { serving: target }) }]);
    const report = await eventually(
      () => fleet.reports.at(-1),
      (one) => one?.generation === generation,
    );
    return report?.last_exit?.at;
  };
  assert.equal(await reported(1), undefined);
  assert.equal(await reported(2), undefined, "the exit was part of the rollout");
  lastExit = exitAt("2026-01-01T00:05:00Z");
  assert.equal(await reported(3), lastExit.at);
  fleet.fleet.stepDown(new Error("the test is over"));
});

const endingPod = (revisionId: string) => ({
  ...{ deployment_id: randomUUID(), replica_id: "agent-1", revision_id: revisionId, phase: "draining" as const },
  ...{ address: null, restarts: 3, started_at: null, limits: { memory: "none", cpu: "none" } },
});

test("keeps a deployment awake while it has a route beside the gateway, and applies it again until it has none", async () => {
  const cluster = { namespace: null, spec: {} } as NonNullable<RevisionRun["cluster"]>;
  const serving: RevisionRun = { ...runInCluster(), min_replicas: 0, cluster };
  let applies = 0;
  let sleeps = 0;
  const compute: Partial<ClusterCompute> = {
    async apply() {
      applies += 1;
      return { waitingFor: null, held: null, routedBy: applies < 3 ? "both" : "gateway" };
    },
    inspect: async () => ({ ...nothingThere, revisionId: serving.revision_id, isReady: true }),
    async setAsleep() {
      sleeps += 1;
    },
  };
  const idle = { counts: () => [], follow: () => {}, activityOf: () => ({ lastRequestAtMs: null, isBusy: false }) };
  const fleet = startFleet(compute, { traffic: idle });
  fleet.fleet.assign([assignmentOf({ target: serving, serving, idle_after_ms: 1_000 })]);
  for (const expected of [1, 2]) {
    await eventually(fleet.nextWakeMs, (delayMs) => delayMs !== null);
    assert.deepEqual([applies, sleeps], [expected, 0]);
    fleet.wakeAfter(20_000);
  }
  await eventually(
    () => sleeps,
    (count) => count === 1,
  );
  assert.equal(applies, 3);
  fleet.fleet.stepDown(new Error("the test is over"));
});

test("a first revision serves once requests reach its pods, and one that replaces another once they have stayed ready", async () => {
  const [first, next] = [runInCluster(), runInCluster()];
  const facts = { isReady: false, isStarted: false, isReached: false };
  const asked: string[] = [];
  let [goal, inspections] = [first, 0];
  const fleet = startFleet({
    async inspect() {
      inspections += 1;
      return { ...nothingThere, ...facts, revisionId: goal.revision_id };
    },
    async isReached({ healthPath }) {
      asked.push(healthPath);
      return facts.isReached;
    },
  });
  /** Returns what is reported after the next inspection. Each inspection ends in a report. */
  const phaseWith = async (changed: Partial<typeof facts>) => {
    Object.assign(facts, changed);
    const before = inspections;
    fleet.fleet.recheck();
    await eventually(
      () => fleet.reports.length,
      (length) => inspections > before && length === inspections,
    );
    return fleet.reports.at(-1)?.target_phase;
  };
  const assignment = assignmentOf({ target: first });
  fleet.fleet.assign([assignment]);
  assert.equal(await phaseWith({}), "starting", "its pods start");
  assert.deepEqual(asked, [], "a pod that is not ready is sent no request");
  assert.equal(await phaseWith({ isStarted: true }), "starting", "requests do not reach it yet");
  assert.equal(await phaseWith({ isReached: true }), "ready");
  assert.ok(asked.length >= 2 && asked.every((path) => path === "/ok"), asked.join());

  fleet.fleet.assign([{ ...assignment, generation: 2, serving: first }]);
  assert.equal(await phaseWith({}), "ready", "it still serves");
  assert.equal(await phaseWith({ isStarted: false }), "starting", "its pod has ended");
  assert.equal(await phaseWith({ isStarted: true }), "starting", "a pod that has ended must stay ready");
  assert.equal(await phaseWith({ isReady: true }), "ready");

  goal = next;
  Object.assign(facts, { isReady: false, isStarted: true });
  fleet.fleet.assign([{ ...assignment, generation: 3, target: next, serving: first }]);
  assert.equal(await phaseWith({}), "starting", "it replaces another one");
  assert.equal(await phaseWith({ isReady: true }), "ready");
  fleet.fleet.stepDown(new Error("the test is over"));
});

const nothingThere: ClusterStatus = { revisionId: null, isReady: false, problems: [], replicas: [] };

function startFleet(cluster: Partial<ClusterCompute>, more: Pick<ClusterFleetOptions, "traffic"> = {}) {
  let nowMs = 0;
  const timers = new Set<{ run: () => void; delayMs: number }>();
  const clock: Clock = {
    now: () => nowMs,
    monotonicMs: () => nowMs,
    random: () => 0.5,
    setTimeout(run, delayMs) {
      const timer = { run, delayMs };
      timers.add(timer);
      return () => timers.delete(timer);
    },
  };
  const reports: Snapshot[] = [];
  const whole = {
    apply: async () => ({ waitingFor: null, held: null }),
    inspect: async () => nothingThere,
    stop: async () => {},
    onChange: () => {},
    ...cluster,
  };
  const context = {
    clock,
    logger: createLogger("silent"),
    secrets: { read: async () => ({}) } as unknown as Secrets,
    report: (snapshot: Snapshot) => void reports.push(snapshot),
    forget: () => {},
    logShipper: null,
    session: () => ({ epoch: 1, listener_id: "00000000-0000-4000-8000-000000000001" }),
    mayAct: () => true,
  };
  const fleet = new ClusterFleet({ cluster: whole as unknown as ClusterCompute, ...more }, context);
  fleet.lead();
  /** Wake timers, without the deadline timers of passes. */
  const wakes = () => [...timers].filter(({ delayMs }) => delayMs <= 60_000);
  return {
    fleet,
    reports,
    nextWakeMs: () => wakes()[0]?.delayMs ?? null,
    wakeAfter(delayMs: number) {
      nowMs += delayMs;
      for (const timer of wakes()) {
        timers.delete(timer);
        timer.run();
      }
    },
  };
}

function assignmentOf(parts: Partial<Assignment>): Assignment {
  const ids = { deployment_id: randomUUID(), tenant_id: randomUUID(), slug: "agent-12345678" };
  return { ...ids, generation: 1, op: "apply", target: null, serving: null, ...parts } as Assignment;
}

function runInCluster(): RevisionRun {
  const artifact = {
    kind: "image",
    digest: "",
    uri: "registry.example.com/agent:1",
    health_path: "/ok",
    rollout: "rolling",
  };
  return { ...newRun(), artifact, cluster: { namespace: null } } as unknown as RevisionRun;
}
