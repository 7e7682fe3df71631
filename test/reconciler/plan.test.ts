import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeploymentStatus } from "../../src/contract/deployments/deployment.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import type { RevisionStatus } from "../../src/contract/revisions/revision.ts";
import { canMoveRevision, holdsSlot } from "../../src/domain/revision-status.ts";
import { currentHealth, planDeployment } from "../../src/reconciler/plan/plan.ts";
import type { BuildFacts, DeploymentState, RevisionFacts } from "../../src/reconciler/plan/state.ts";
import type { Step } from "../../src/reconciler/plan/step.ts";

const now = new Date("2026-01-01T12:00:00Z");
const later = new Date("2026-01-01T12:10:00Z");
const earlier = new Date("2026-01-01T11:50:00Z");

test("plans only moves that the status table allows, in every state", () => {
  let states = 0;
  for (const state of everyState()) {
    states += 1;
    const step = planDeployment(state, now);
    if (step.kind === "move") assert.ok(canMoveRevision(step.from, step.to), JSON.stringify({ state, step }));
  }
  assert.ok(states > 20_000, `only ${states} states`);
});

test("never rolls out a second revision while another one is in progress", () => {
  for (const state of everyState()) {
    const step = planDeployment(state, now);
    const inProgress = state.unsettled.find((revision) => holdsSlot(revision.status));
    if (inProgress === undefined || !("revisionId" in step) || step.kind === "cancelBuild") continue;
    const touched = state.unsettled.find((revision) => revision.id === step.revisionId);
    if (touched?.status === "CREATING") continue;
    assert.equal(step.revisionId, inProgress.id, JSON.stringify({ state, step }));
  }
});

test("finishes a rollout only when the listener reports it ready for the current assignment", () => {
  for (const state of everyState()) {
    const step = planDeployment(state, now);
    if (step.kind !== "finishRollout") continue;
    assert.equal(state.observation?.report.target_phase, "ready");
    assert.equal(state.observation?.report.target_revision_id, step.revisionId);
    assert.equal(state.assignment?.targetRevisionId, step.revisionId);
    assert.ok((state.observation?.generation ?? 0) >= (state.assignment?.generation ?? 0));
  }
});

test("ends a step past its deadline in a failure with a message, in every state", () => {
  for (const state of everyState()) {
    if (state.status !== "READY") continue;
    const overdue = state.unsettled.find(
      (revision) => (revision.status === "CREATING" || holdsSlot(revision.status)) && revision.deadlineAt === earlier,
    );
    if (
      overdue === undefined ||
      state.unsettled.some((revision) => revision.status === "CREATING" && revision !== overdue)
    )
      continue;
    const step = planDeployment(state, now);
    assert.notEqual(step.kind, "wait", JSON.stringify(state));
    if (step.kind === "move") assert.ok(step.message !== null && step.message.length > 10, JSON.stringify(step));
  }
});

test("waits until a time, or for a report of the listener, but never without an end", () => {
  for (const state of everyState()) {
    const step = planDeployment(state, now);
    if (step.kind === "wait" && step.until === null)
      assert.ok(state.assignment?.op === "delete", JSON.stringify(state));
  }
});

test("a deployment that is being deleted starts nothing and ends with its row deleted", () => {
  const allowed: Step["kind"][] = ["cancelBuild", "move", "assignDelete", "finalize", "deleteRow", "wait"];
  for (const state of everyState()) {
    if (state.status !== "AWAITING_DELETE" && state.status !== "AWAITING_FINAL_DELETE") continue;
    const step = planDeployment(state, now);
    assert.ok(allowed.includes(step.kind), JSON.stringify({ state, step }));
    if (step.kind === "move") assert.equal(step.to, "INTERRUPTED");
    if (step.kind === "deleteRow") assert.equal(state.status, "AWAITING_FINAL_DELETE");
  }
});

test("kills the build of a revision that is no longer building before anything else", () => {
  for (const state of everyState()) {
    const orphan = state.builds.find(
      (build) =>
        build.status === "running" &&
        !state.unsettled.some((one) => one.id === build.revisionId && one.status === "BUILDING"),
    );
    if (orphan !== undefined) assert.equal(planDeployment(state, now).kind, "cancelBuild");
  }
});

test("skips older queued revisions and then runs the newest", () => {
  const queued = ["a", "b", "c"].map((id) => revision(id, "QUEUED", null, true));
  const state = stateWith({ unsettled: queued });
  assert.deepEqual(planDeployment(state, now), { kind: "skip", revisionIds: ["a", "b"], supersededBy: "c" });
  const alone = stateWith({ unsettled: queued.slice(-1) });
  assert.equal((planDeployment(alone, now) as { to?: string }).to, "AWAITING_DEPLOY");
});

const rollout = {
  assignment: {
    generation: 3,
    op: "apply",
    targetRevisionId: "a",
    servingRevisionId: null,
    replicasMin: {},
    isCurrent: true,
  },
  observed: (reason: string, generation = 3, since?: Date) => {
    const cause = { reason, message: `${reason} it is.`, exit_code: null, signal: null, last_lines: [] };
    const parts = since === undefined ? {} : { cause_since: since.toISOString() };
    const report = { target_revision_id: "a", target_phase: "starting", cause, replicas: [], ...parts };
    return { generation, report: report as unknown as DeploymentReport };
  },
} as const;

test("the message of a rollout in progress says what its listener waits for, and is written once", () => {
  const revisionWith = (message: string | null) => ({ ...revision("a", "DEPLOYING", later, true), message });
  const stepFor = (message: string | null, generation = 3) =>
    planDeployment(
      stateWith({
        unsettled: [revisionWith(message)],
        assignment: rollout.assignment,
        observation: rollout.observed("ImagePull", generation),
      }),
      now,
    );
  const described = { kind: "describeRollout", revisionId: "a", message: "ImagePull it is." };
  assert.deepEqual(stepFor(null), described);
  assert.deepEqual(stepFor("Something else."), described);
  assert.equal(stepFor("ImagePull it is.").kind, "wait");
  assert.equal(stepFor(null, 2).kind, "wait", "a report on an earlier assignment");
});

test("a rollout without room yields to a newer revision, but only after some minutes and for a current report", () => {
  type Options = { reason?: string; generation?: number; isAlone?: boolean; lackingMinutes?: number };
  const stepFor = (minutes: number, options: Options = {}) => {
    const { reason = "Unschedulable", generation = 3, isAlone = false, lackingMinutes } = options;
    const ago = (count: number) => new Date(now.getTime() - count * 60_000);
    const since = ago(minutes);
    const stuck = { ...revision("a", "DEPLOYING", later, true), since, message: `${reason} it is.` };
    const unsettled = isAlone ? [stuck] : [stuck, revision("b", "QUEUED", null, true)];
    const observation = rollout.observed(
      reason,
      generation,
      lackingMinutes === undefined ? undefined : ago(lackingMinutes),
    );
    return planDeployment(stateWith({ unsettled, assignment: rollout.assignment, observation }), now);
  };
  assert.equal(stepFor(4).kind, "wait");
  assert.deepEqual(stepFor(5), {
    kind: "failRollout",
    revisionId: "a",
    message: "Unschedulable it is. A newer revision takes its turn.",
    failure: { code: "no_capacity", variables: [] },
  });
  assert.equal(stepFor(9, { lackingMinutes: 4 }).kind, "wait", "it began to lack room four minutes ago");
  assert.equal(stepFor(9, { lackingMinutes: 5 }).kind, "failRollout");
  assert.equal(stepFor(4, { lackingMinutes: 60 }).kind, "wait", "the pod of an earlier try");
  assert.equal(stepFor(5, { isAlone: true }).kind, "wait");
  assert.equal(stepFor(5, { reason: "NotHealthy" }).kind, "wait");
  assert.equal(stepFor(5, { generation: 2 }).kind, "wait");
});

test("has nothing to do when nothing is in progress and the active revision is assigned", () => {
  const assignment = {
    generation: 3,
    op: "apply",
    targetRevisionId: "a",
    servingRevisionId: "a",
    replicasMin: {},
    isCurrent: true,
  } as const;
  assert.equal(planDeployment(stateWith({ activeRevisionId: "a", assignment }), now).kind, "none");
  const stale = { ...assignment, targetRevisionId: "b" };
  assert.deepEqual(planDeployment(stateWith({ activeRevisionId: "a", assignment: stale }), now), {
    kind: "settleAssignment",
    revisionId: "a",
  });
});

test("creates a tracing project only when there is nothing else to do, and retries it at its time", () => {
  const wanted = { isWanted: true, retryAt: null, isDeletedToo: false };
  for (const state of everyState()) {
    const [without, due, late] = [null, wanted, { ...wanted, retryAt: later }].map((tracing) =>
      planDeployment({ ...state, tracing }, now),
    ) as [Step, Step, Step];
    const isIdle = (without.kind === "wait" || without.kind === "none") && state.status === "READY";
    if (!isIdle) {
      assert.deepEqual([due, late], [without, without]);
      continue;
    }
    assert.deepEqual(due, { kind: "createTracingProject" });
    assert.equal(late.kind, "wait");
    if (late.kind === "wait") assert.ok(late.until !== null && late.until <= later);
  }
});

test("deletes a tracing project before the row of its deployment only when it is to be deleted with it", () => {
  const tracing = { isWanted: false, retryAt: null, isDeletedToo: true };
  const deleting = stateWith({ status: "AWAITING_FINAL_DELETE", tracing });
  assert.equal(planDeployment(deleting, now).kind, "removeTracingProject");
  for (const other of [null, { ...tracing, isDeletedToo: false }]) {
    assert.equal(planDeployment({ ...deleting, tracing: other }, now).kind, "deleteRow");
  }
});

test("polls a followed branch when there is nothing else to do, and waits no longer than until its next poll", () => {
  const following = { isFollowing: true, pollAt: null, reportAt: null, hasReports: false };
  for (const state of everyState()) {
    const without = planDeployment(state, now);
    const isIdle = (without.kind === "wait" || without.kind === "none") && state.status === "READY";
    for (const [host, kind] of [
      [following, "inspectBranch"],
      [{ ...following, pollAt: now }, "inspectBranch"],
      [{ ...following, pollAt: later, reportAt: now }, "reportToHost"],
      [{ ...following, isFollowing: false, pollAt: later }, "unfollowBranch"],
    ] as const) {
      const step = planDeployment({ ...state, host }, now);
      if (isIdle) assert.equal(step.kind, kind);
      else assert.deepEqual(step, without);
    }
    const waiting = planDeployment({ ...state, host: { ...following, pollAt: later } }, now);
    if (isIdle) assert.ok(waiting.kind === "wait" && waiting.until !== null && waiting.until <= later);
  }
});

test("has no work for the code host of a deployment that follows no branch", () => {
  const host = { isFollowing: false, pollAt: null, reportAt: null, hasReports: true };
  for (const state of everyState()) {
    assert.deepEqual(planDeployment({ ...state, host }, now), planDeployment(state, now));
  }
});

/** A deployment whose health is recorded, unless a test gives another one. */
function stateWith(given: Partial<DeploymentState>): DeploymentState {
  const state: DeploymentState = {
    id: "d",
    tenantId: "t",
    status: "READY",
    activeRevisionId: null,
    isDeleteForced: false,
    health: { word: "live", reason: null, message: null, failure: null },
    latest: null,
    listener: "acting",
    unsettled: [],
    builds: [],
    assignment: null,
    observation: null,
    tracing: null,
    host: null,
    ...given,
  };
  return given.health === undefined ? { ...state, health: currentHealth(state) } : state;
}

function revision(id: string, status: RevisionStatus, deadlineAt: Date | null, hasArtifact: boolean): RevisionFacts {
  return { id, status, since: earlier, message: null, deadlineAt, hasArtifact, traceparent: null };
}

function* everyState(): Generator<DeploymentState> {
  const statuses: DeploymentStatus[] = ["AWAITING_DATABASE", "READY", "AWAITING_DELETE", "AWAITING_FINAL_DELETE"];
  for (const status of statuses)
    for (const unsettled of everyQueue())
      for (const builds of everyBuild())
        for (const assignment of everyAssignment())
          for (const observation of everyObservation())
            yield stateWith({
              status,
              unsettled,
              builds,
              assignment,
              observation,
              activeRevisionId: "old",
              isDeleteForced: false,
            });
}

function* everyQueue(): Generator<RevisionFacts[]> {
  yield [];
  const open: RevisionStatus[] = ["CREATING", "QUEUED", "AWAITING_BUILD", "BUILDING", "AWAITING_DEPLOY", "DEPLOYING"];
  for (const status of open)
    for (const deadlineAt of [earlier, later])
      for (const hasArtifact of [true, false]) {
        const first = revision("new", status, deadlineAt, hasArtifact);
        yield [first];
        yield [first, revision("newer", "QUEUED", null, false)];
        yield [first, revision("newer", "CREATING", later, false)];
      }
}

function* everyBuild(): Generator<BuildFacts[]> {
  yield [];
  for (const status of ["running", "succeeded", "failed", "cancelled"] as const)
    for (const attempts of [1, 3])
      for (const abandoned of status === "running" ? [true, false] : [false])
        yield [
          {
            revisionId: "new",
            status,
            abandoned,
            leaseUntil: later,
            attempts,
            failure: status === "failed" ? "npm ended with code 1" : null,
            reason: status === "failed" ? "InstallFailed" : null,
          },
        ];
}

function* everyAssignment(): Generator<DeploymentState["assignment"]> {
  yield null;
  for (const targetRevisionId of ["new", "old"])
    yield { generation: 2, op: "apply", targetRevisionId, servingRevisionId: "old", replicasMin: {}, isCurrent: true };
  yield {
    generation: 2,
    op: "delete",
    targetRevisionId: null,
    servingRevisionId: null,
    replicasMin: {},
    isCurrent: true,
  };
}

function* everyObservation(): Generator<DeploymentState["observation"]> {
  yield null;
  for (const generation of [1, 2])
    for (const target of ["new", "old"])
      for (const phase of ["starting", "ready", "failed"] as const)
        for (const deleted of [true, false]) yield { generation, report: report(target, phase, deleted) };
}

function report(target: string, phase: "starting" | "ready" | "failed", deleted: boolean): DeploymentReport {
  return {
    deployment_id: "d",
    generation: 2,
    seq: 1,
    target_revision_id: target,
    target_phase: phase,
    serving_revision_id: "old",
    asleep: false,
    deleted,
    server_version: null,
    cause: null,
    replicas: [],
  };
}
