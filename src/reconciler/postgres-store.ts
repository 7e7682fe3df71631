import { dropArtifactsOf, findArtifact, findArtifactByKey, saveArtifact } from "../store/builds/artifacts.ts";
import { dropBuildOrder, placeBuildOrder, readBuildEnd, readImageRegistry } from "../store/builds/build-orders.ts";
import {
  claimBuild,
  finishBuild,
  recordBuildProcess,
  releaseBuilds,
  renewBuilds,
  takeAbandonedBuild,
} from "../store/builds/builds.ts";
import { acceptArtifact, findBuiltArtifact } from "../store/builds/built-artifacts.ts";
import { findFinishedUpload } from "../store/builds/uploads.ts";
import { openIntegration } from "../store/code-hosts/integrations.ts";
import { findOrphanedPreviews } from "../store/code-hosts/previews.ts";
import { readAssignedRevisions } from "../store/data-plane/assigned-revisions.ts";
import { writeAssignment } from "../store/data-plane/assignments.ts";
import {
  findDatabaseKinds,
  findDeploymentDatabase,
  planDeploymentDatabase,
  readDatabaseSettings,
  readDefaultEngine,
} from "../store/deployments/deployment-databases.ts";
import { recordHealth } from "../store/deployments/deployment-health.ts";
import { readDeploymentState } from "../store/deployments/deployment-state.ts";
import { deleteDeploymentRow, moveDeployment, requestDelete } from "../store/deployments/deployments.ts";
import {
  detachTracingProject,
  dropTracingProject,
  findTracingProject,
  recordTracingFailure,
  settleTracingProject,
} from "../store/deployments/tracing-projects.ts";
import type { Db } from "../store/engine/database.ts";
import { appendLogEntries } from "../store/logs/log-entries.ts";
import { dropLogEntries, findKnownArtifactKeys } from "../store/maintenance/retention.ts";
import {
  describeRollout,
  moveRevision,
  postponeDeadline,
  readRevision,
  skipRevisions,
} from "../store/revisions/revisions.ts";
import type { Sealer } from "../store/secrets/seal.ts";
import { findSecretSet } from "../store/secrets/secrets.ts";
import { buildQuotaProblem } from "../store/tenants/quotas.ts";
import { hasOtherWorkspaces } from "../store/tenants/tenants.ts";
import type { BuildOrders, BuildStore, ReconcilerStore } from "./store.ts";

/** Binds the functions of `src/store` to one database. It adds nothing but the names of the port. */
export function createReconcilerStore(db: Db, sealer: Sealer): ReconcilerStore {
  return {
    now: () => db.now(),
    reached: (point) => db.reached(point),
    wake: () => db.changes.wake(),

    readDeploymentState: (deploymentId) => readDeploymentState(db, deploymentId),
    moveDeployment: (deploymentId, move) => moveDeployment(db, deploymentId, move),
    recordHealth: (deploymentId, record) => recordHealth(db, { id: deploymentId, ...record }),
    findOrphanedPreviews: (parentId) => findOrphanedPreviews(db, parentId),
    requestDelete: (tenantId, deploymentId, options) => requestDelete(db, tenantId, deploymentId, options),
    deleteLogs: (deploymentId, signal) => dropLogEntries(db, deploymentId, signal),
    deleteDeployment: (deploymentId) => deleteDeploymentRow(db, deploymentId),

    readRevision: (revisionId) => readRevision(db, revisionId),
    moveRevision: (revision, move) => moveRevision(db, revision, move),
    skipRevisions: (revisionIds, supersededBy) => skipRevisions(db, revisionIds, supersededBy),
    describeRollout: (revisionId, message) => describeRollout(db, revisionId, message),
    postponeDeadline: (revision, until) => postponeDeadline(db, revision, until),
    appendLog: (entries) => appendLogEntries(db, entries),

    readAssignedRevisions: (desired) => readAssignedRevisions(db, desired),
    writeAssignment: (assignment) => writeAssignment(db, assignment),

    readImageRegistry: (listenerId) => readImageRegistry(db, listenerId),
    findUpload: (deploymentId, objectPath) => findFinishedUpload(db, deploymentId, objectPath),
    findArtifact: (artifactId) => findArtifact(db, artifactId),
    findArtifactByKey: (tenantId, key) => findArtifactByKey(db, tenantId, key),
    saveArtifact: (tenantId, key, manifest) => saveArtifact(db, tenantId, key, manifest),
    findBuiltArtifact: (revisionId) => findBuiltArtifact(db, revisionId),
    acceptArtifact: (revision, built, deadlineAt) => acceptArtifact(db, revision, built, deadlineAt),
    deleteArtifacts: (deploymentId) => db.transaction((trx) => dropArtifactsOf(trx, deploymentId)),
    isArtifactKeyUsed: async (key) => (await findKnownArtifactKeys(db, [key])).has(key),
    findBuildQuotaProblem: (tenantId) => buildQuotaProblem(db, tenantId),

    findDatabaseKinds: (deploymentId) => findDatabaseKinds(db, deploymentId),
    findDatabase: (deployment) => findDeploymentDatabase(db, sealer, deployment),
    planDatabase: (deployment, kinds) => planDeploymentDatabase(db, sealer, deployment, kinds),
    readDatabaseSettings: (deploymentId) => readDatabaseSettings(db, deploymentId),
    readDefaultEngine: (deploymentId) => readDefaultEngine(db, deploymentId),
    readSecrets: async (deploymentId, secretSetId) =>
      (await findSecretSet(db, sealer, { listenerId: null, deploymentId, secretSetId }))?.values ?? {},

    findTracingProject: (deploymentId) => findTracingProject(db, deploymentId),
    settleTracingProject: (deploymentId, externalId) => settleTracingProject(db, deploymentId, externalId),
    recordTracingFailure: (deploymentId, failure) => recordTracingFailure(db, deploymentId, failure),
    deleteTracingProject: (deploymentId) => dropTracingProject(db, deploymentId),
    detachTracingProject: (deploymentId, because) => detachTracingProject(db, deploymentId, because),

    openIntegration: (integration) => openIntegration(db, sealer, integration),
  };
}

/** Binds what the build runner needs to one database. */
export function createBuildStore(db: Db): BuildStore {
  return {
    now: () => db.now(),
    hasOtherWorkspaces: (tenantId) => hasOtherWorkspaces(db, tenantId),
    claimBuild: (revision, claim) => claimBuild(db, revision, claim),
    recordBuildProcess: (revisionId, worker) => recordBuildProcess(db, revisionId, worker),
    renewBuilds: (owner, revisionIds, leaseMs) => renewBuilds(db, owner, revisionIds, leaseMs),
    finishBuild: (revisionId, end) => finishBuild(db, revisionId, end),
    takeAbandonedBuild: (revisionId, claim) => takeAbandonedBuild(db, revisionId, claim),
    releaseBuilds: (owner) => releaseBuilds(db, owner),
    appendLog: (entries) => appendLogEntries(db, entries),
  };
}

/** Binds the orders for listeners to one database. */
export const createBuildOrders = (db: Db): BuildOrders => ({
  now: () => db.now(),
  place: (order) => placeBuildOrder(db, order),
  readEnd: (id) => readBuildEnd(db, id),
  drop: (id) => dropBuildOrder(db, id),
});
