import assert from "node:assert/strict";
import { test } from "node:test";
import { DeploymentStatus } from "../../src/contract/deployments/deployment.ts";
import { RevisionStatus } from "../../src/contract/revisions/revision.ts";
import { canMoveDeployment, isBeingDeleted } from "../../src/domain/deployment-status.ts";
import { canMoveRevision, holdsSlot, isFailed, isFinal } from "../../src/domain/revision-status.ts";

const revisionStatuses = RevisionStatus.enum as RevisionStatus[];
const deploymentStatuses = DeploymentStatus.enum as DeploymentStatus[];

function reachable<S>(start: S, all: readonly S[], canMove: (from: S, to: S) => boolean): Set<S> {
  const found = new Set([start]);
  for (const from of found) for (const to of all) if (canMove(from, to)) found.add(to);
  return found;
}

test("a final revision never changes status, and every other one can be interrupted", () => {
  const final: RevisionStatus[] = [
    "DEPLOYED",
    "CREATE_FAILED",
    "BUILD_FAILED",
    "DEPLOY_FAILED",
    "SKIPPED",
    "INTERRUPTED",
  ];
  for (const from of revisionStatuses) {
    assert.equal(isFinal(from), final.includes(from), from);
    assert.equal(canMoveRevision(from, "INTERRUPTED"), !final.includes(from), from);
    for (const to of revisionStatuses) if (isFinal(from)) assert.ok(!canMoveRevision(from, to), `${from} -> ${to}`);
  }
});

test("every revision status is reachable from CREATING, and a final one from every open status", () => {
  assert.deepEqual(
    [...reachable("CREATING", revisionStatuses, canMoveRevision)].toSorted(),
    revisionStatuses.toSorted(),
  );
  for (const from of revisionStatuses) {
    const ends = [...reachable(from, revisionStatuses, canMoveRevision)].filter(isFinal);
    assert.ok(ends.length > 0, from);
    if (!isFinal(from)) assert.ok(ends.includes("DEPLOYED"), from);
  }
});

test("a revision's status never goes back, except by way of UNKNOWN", () => {
  const order: RevisionStatus[] = [
    "CREATING",
    "QUEUED",
    "AWAITING_BUILD",
    "BUILDING",
    "AWAITING_DEPLOY",
    "DEPLOYING",
    "DEPLOYED",
  ];
  for (const from of order) {
    for (const to of order)
      if (canMoveRevision(from, to)) assert.ok(order.indexOf(to) > order.indexOf(from), `${from} -> ${to}`);
  }
});

test("failed statuses are final, and only open statuses past the queue hold the slot", () => {
  assert.deepEqual(revisionStatuses.filter(isFailed), ["CREATE_FAILED", "BUILD_FAILED", "DEPLOY_FAILED"]);
  assert.deepEqual(revisionStatuses.filter(holdsSlot), ["AWAITING_BUILD", "BUILDING", "AWAITING_DEPLOY", "DEPLOYING"]);
  for (const status of revisionStatuses) if (isFailed(status)) assert.ok(isFinal(status));
});

test("a deployment can reach every status, and a delete is never undone", () => {
  const all = reachable("AWAITING_DATABASE", deploymentStatuses, canMoveDeployment);
  assert.deepEqual([...all].toSorted(), deploymentStatuses.toSorted());
  for (const from of deploymentStatuses.filter(isBeingDeleted)) {
    for (const to of deploymentStatuses)
      if (canMoveDeployment(from, to)) assert.ok(isBeingDeleted(to), `${from} -> ${to}`);
  }
  for (const from of deploymentStatuses)
    if (!isBeingDeleted(from)) assert.ok(canMoveDeployment(from, "AWAITING_DELETE"), from);
});
