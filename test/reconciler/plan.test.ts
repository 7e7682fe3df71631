import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeploymentStatus } from "../../src/contract/deployments/deployment.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import type { RevisionStatus } from "../../src/contract/revisions/revision.ts";
import { canMoveRevision, holdsSlot } from "../../src/domain/revision-status.ts";
import { planDeployment, type Step } from "../../src/reconciler/plan/plan.ts";
import type { BuildFacts, DeploymentState, RevisionFacts } from "../../src/reconciler/plan/state.ts";

const now = new Date("2026-01-01T12:00:00Z");
const later = new Date("2026-01-01T12:10:00Z");
const earlier = new Date("2026-01-01T11:50:00Z");

test("in every world the planned move is one that the status table allows", () => {
  let worlds = 0;
  for (const state of everyWorld()) {
    worlds += 1;
    const step = planDeployment(state, now);
    if (step.kind === "move") assert.ok(canMoveRevision(step.from, step.to), JSON.stringify({ state, step }));
  }
  assert.ok(worlds > 20_000, `only ${worlds} worlds`);
});

test("no world rolls out a second revision while another one is in progress", () => {
  for (const state of everyWorld()) {
    const step = planDeployment(state, now);
    const inProgress = state.unsettled.find((revision) => holdsSlot(revision.status));
    if (inProgress === undefined || !("revisionId" in step) || step.kind === "cancelBuild") continue;
    const touched = state.unsettled.find((revision) => revision.id === step.revisionId);
    if (touched?.status === "CREATING") continue;
    assert.equal(step.revisionId, inProgress.id, JSON.stringify({ state, step }));
  }
});

test("a revision counts as deployed only when the listener says so about this very assignment", () => {
  for (const state of everyWorld()) {
    const step = planDeployment(state, now);
    if (step.kind !== "finishRollout") continue;
    assert.equal(state.observation?.report.target_phase, "ready");
    assert.equal(state.observation?.report.target_revision_id, step.revisionId);
    assert.equal(state.assignment?.targetRevisionId, step.revisionId);
    assert.ok((state.observation?.generation ?? 0) >= (state.assignment?.generation ?? 0));
  }
});

test("a step past its deadline ends in a failure with a message, whatever else is the case", () => {
  for (const state of everyWorld()) {
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

test("a wait ends by itself or because the listener reports: it never waits for nothing", () => {
  for (const state of everyWorld()) {
    const step = planDeployment(state, now);
    if (step.kind === "wait" && step.until === null)
      assert.ok(state.assignment?.op === "delete", JSON.stringify(state));
  }
});

test("a deployment that is being deleted starts nothing and ends in its row being dropped", () => {
  const allowed: Step["kind"][] = ["cancelBuild", "move", "assignDelete", "finalize", "deleteRow", "wait"];
  for (const state of everyWorld()) {
    if (state.status !== "AWAITING_DELETE" && state.status !== "AWAITING_FINAL_DELETE") continue;
    const step = planDeployment(state, now);
    assert.ok(allowed.includes(step.kind), JSON.stringify({ state, step }));
    if (step.kind === "move") assert.equal(step.to, "INTERRUPTED");
    if (step.kind === "deleteRow") assert.equal(state.status, "AWAITING_FINAL_DELETE");
  }
});

test("the build of a revision that is no longer building is killed first", () => {
  for (const state of everyWorld()) {
    const orphan = state.builds.find(
      (build) =>
        build.status === "running" &&
        !state.unsettled.some((one) => one.id === build.revisionId && one.status === "BUILDING"),
    );
    if (orphan !== undefined) assert.equal(planDeployment(state, now).kind, "cancelBuild");
  }
});

test("the newest queued revision runs and older queued ones are skipped first", () => {
  const queued = ["a", "b", "c"].map((id) => revision(id, "QUEUED", null, true));
  const state = world({ unsettled: queued });
  assert.deepEqual(planDeployment(state, now), { kind: "skip", revisionIds: ["a", "b"], supersededBy: "c" });
  const alone = world({ unsettled: queued.slice(-1) });
  assert.equal((planDeployment(alone, now) as { to?: string }).to, "AWAITING_DEPLOY");
});

test("nothing in progress and the data plane told to run the active revision: nothing to do", () => {
  const assignment = {
    generation: 3,
    op: "apply",
    targetRevisionId: "a",
    servingRevisionId: "a",
    isCurrent: true,
  } as const;
  assert.equal(planDeployment(world({ activeRevisionId: "a", assignment }), now).kind, "none");
  const stale = { ...assignment, targetRevisionId: "b" };
  assert.deepEqual(planDeployment(world({ activeRevisionId: "a", assignment: stale }), now), {
    kind: "settleAssignment",
    revisionId: "a",
  });
});

test("a tracing project is made only when there is nothing else to do, and tried again at its time", () => {
  const wanted = { isWanted: true, retryAt: null, isDoomed: false };
  for (const state of everyWorld()) {
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

test("a doomed tracing project goes before the row of its deployment; any other one stays", () => {
  const tracing = { isWanted: false, retryAt: null, isDoomed: true };
  const dying = world({ status: "AWAITING_FINAL_DELETE", tracing });
  assert.equal(planDeployment(dying, now).kind, "removeTracingProject");
  for (const kept of [null, { ...tracing, isDoomed: false }]) {
    assert.equal(planDeployment({ ...dying, tracing: kept }, now).kind, "deleteRow");
  }
});

test("a followed branch is looked at beside everything else, at its time and no later than five minutes on", () => {
  const following = { isFollowing: true, lookAt: null, tellAt: null, isTold: false };
  for (const state of everyWorld()) {
    const without = planDeployment(state, now);
    const isIdle = (without.kind === "wait" || without.kind === "none") && state.status === "READY";
    for (const [host, kind] of [
      [following, "lookAtBranch"],
      [{ ...following, lookAt: now }, "lookAtBranch"],
      [{ ...following, lookAt: later, tellAt: now }, "tellHost"],
      [{ ...following, isFollowing: false, lookAt: later }, "forgetBranch"],
    ] as const) {
      const step = planDeployment({ ...state, host }, now);
      if (isIdle) assert.equal(step.kind, kind);
      else assert.deepEqual(step, without);
    }
    const waiting = planDeployment({ ...state, host: { ...following, lookAt: later } }, now);
    if (isIdle) assert.ok(waiting.kind === "wait" && waiting.until !== null && waiting.until <= later);
  }
});

test("a deployment that follows nothing has nothing to do with its host", () => {
  const host = { isFollowing: false, lookAt: null, tellAt: null, isTold: true };
  for (const state of everyWorld()) {
    assert.deepEqual(planDeployment({ ...state, host }, now), planDeployment(state, now));
  }
});

function world(given: Partial<DeploymentState>): DeploymentState {
  return {
    id: "d",
    tenantId: "t",
    status: "READY",
    activeRevisionId: null,
    isDeleteForced: false,
    listener: "acting",
    unsettled: [],
    builds: [],
    assignment: null,
    observation: null,
    tracing: null,
    host: null,
    ...given,
  };
}

function revision(id: string, status: RevisionStatus, deadlineAt: Date | null, hasArtifact: boolean): RevisionFacts {
  return { id, status, deadlineAt, hasArtifact, traceparent: null };
}

function* everyWorld(): Generator<DeploymentState> {
  const statuses: DeploymentStatus[] = ["AWAITING_DATABASE", "READY", "AWAITING_DELETE", "AWAITING_FINAL_DELETE"];
  for (const status of statuses)
    for (const unsettled of everyQueue())
      for (const builds of everyBuild())
        for (const assignment of everyAssignment())
          for (const observation of everyObservation())
            yield world({
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
          },
        ];
}

function* everyAssignment(): Generator<DeploymentState["assignment"]> {
  yield null;
  for (const targetRevisionId of ["new", "old"])
    yield { generation: 2, op: "apply", targetRevisionId, servingRevisionId: "old", isCurrent: true };
  yield { generation: 2, op: "delete", targetRevisionId: null, servingRevisionId: null, isCurrent: true };
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
