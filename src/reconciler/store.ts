import type { DeploymentStatus } from "../contract/deployments/deployment.ts";
import type { HealthWord } from "../contract/deployments/health.ts";
import type { Artifact } from "../contract/listeners/assignment.ts";
import type { BuildEnd } from "../contract/listeners/build-order.ts";
import type { Health } from "../domain/deployment-health.ts";
import type { ArtifactRow } from "../store/builds/artifacts.ts";
import type { NewBuildOrder } from "../store/builds/build-orders.ts";
import type { OrphanedProcess, StoredBuildResult } from "../store/builds/builds.ts";
import type { BuiltArtifact } from "../store/builds/built-artifacts.ts";
import type { UploadRow } from "../store/builds/uploads.ts";
import type { IntegrationRow, IntegrationSecrets } from "../store/code-hosts/integrations.ts";
import type { AssignedRevisionRow, DesiredAssignment } from "../store/data-plane/assigned-revisions.ts";
import type { ReplacedAssignment } from "../store/data-plane/assignments.ts";
import type {
  DatabaseSettingsRow,
  DefaultEngine,
  DeploymentDatabase,
} from "../store/deployments/deployment-databases.ts";
import type { DeploymentStateRow } from "../store/deployments/deployment-state.ts";
import type { TracingProjectRow } from "../store/deployments/tracing-projects.ts";
import type { FaultPoint } from "../store/engine/fault-points.ts";
import type { NewLogEntry } from "../store/logs/log-entries.ts";
import type { RevisionMove, RevisionRow } from "../store/revisions/revisions.ts";

/**
 * Port: what the steps of a pass need from the store. `createReconcilerStore` is the PostgreSQL implementation; the
 * simulator has one in memory and runs the same steps on it.
 *
 * Every method is one statement or one transaction, so it happens completely or not at all. Moves are compare-and-swap:
 * they return false when another worker changed the row first.
 */
export interface ReconcilerStore {
  /** Returns the database's time, against which all deadlines are measured. */
  now(): Date;
  /** Reports that a step is durable. Crash tests kill the server at these points. */
  reached(point: FaultPoint): void;
  /** Wakes reconcilers, listeners and event streams on all servers. Call it after the commit. */
  wake(): void;

  readDeploymentState(deploymentId: string): Promise<DeploymentStateRow | undefined>;
  moveDeployment(deploymentId: string, move: DeploymentMove): Promise<boolean>;
  /** Records the health of a deployment that still has the word `seen`. A changed word is also an event. */
  recordHealth(deploymentId: string, record: { seen: HealthWord; health: Health }): Promise<boolean>;
  findOrphanedPreviews(parentId: string): Promise<{ id: string; deleteTracingProject: boolean }[]>;
  requestDelete(
    tenantId: string,
    deploymentId: string,
    options: { deleteTracingProject: boolean; force: boolean; actor: string },
  ): Promise<boolean>;
  /** Deletes all build and agent logs of a deployment, in batches. */
  deleteLogs(deploymentId: string, signal: AbortSignal): Promise<void>;
  /** Deletes the row and everything that refers to it, only from AWAITING_FINAL_DELETE. */
  deleteDeployment(deploymentId: string): Promise<boolean>;

  readRevision(revisionId: string): Promise<RevisionRow | undefined>;
  moveRevision(revision: { id: string; deploymentId: string }, move: RevisionMove): Promise<boolean>;
  /** Moves superseded revisions QUEUED -> SKIPPED. */
  skipRevisions(revisionIds: string[], supersededBy: string): Promise<void>;
  /** Sets the message of a revision that is DEPLOYING; returns false when it has left that status. */
  describeRollout(revisionId: string, message: string): Promise<boolean>;
  /** Extends the deadline of a revision, unless it has left the status or has that much time already. */
  postponeDeadline(revision: Pick<RevisionRow, "id" | "status">, until: Date): Promise<void>;
  appendLog(entries: NewLogEntry[]): Promise<void>;

  readAssignedRevisions(desired: DesiredAssignment): Promise<AssignedRevisionRow[]>;
  /** Replaces the assignment of generation `seen`; returns false when the generation is a different one by now. */
  writeAssignment(assignment: ReplacedAssignment): Promise<boolean>;

  /** Returns where a listener pushes the images that it builds; null: it builds none. */
  readImageRegistry(listenerId: string): Promise<string | null>;
  findUpload(deploymentId: string, objectPath: string): Promise<UploadRow | undefined>;
  findArtifact(artifactId: string): Promise<ArtifactRow | undefined>;
  findArtifactByKey(tenantId: string, key: string): Promise<ArtifactRow | undefined>;
  /** Saves an artifact under its key and returns its id; an existing key keeps its id. */
  saveArtifact(tenantId: string, key: string, manifest: Artifact): Promise<string>;
  findBuiltArtifact(revisionId: string): Promise<BuiltArtifact | undefined>;
  /** Saves a built artifact and moves its revision BUILDING -> AWAITING_DEPLOY. */
  acceptArtifact(
    revision: { id: string; deploymentId: string; tenantId: string },
    built: BuiltArtifact,
    deadlineAt: Date | null,
  ): Promise<void>;
  /** Deletes the artifacts that only this deployment uses, and returns them. */
  deleteArtifacts(deploymentId: string): Promise<ArtifactRow[]>;
  /** Returns whether an artifact, or a revision on its way to one, has this key. */
  isArtifactKeyUsed(key: string): Promise<boolean>;
  /** Returns why the workspace may not start a build now; null when it may. */
  findBuildQuotaProblem(tenantId: string): Promise<string | null>;

  findDatabaseKinds(deploymentId: string): Promise<Pick<DeploymentDatabase, "postgres" | "redis"> | undefined>;
  findDatabase(deployment: { id: string; tenantId: string }): Promise<DeploymentDatabase | undefined>;
  /** Records which databases a deployment gets; a second call returns what the first one recorded. */
  planDatabase(
    deployment: { id: string; tenantId: string },
    kinds: Pick<DeploymentDatabase, "postgres" | "redis">,
  ): Promise<DeploymentDatabase>;
  readDatabaseSettings(deploymentId: string): Promise<DatabaseSettingsRow | undefined>;
  /** Returns the engine of LangGraph.js projects that name none; null: files. */
  readDefaultEngine(deploymentId: string): Promise<DefaultEngine | null>;
  /** Returns the values of a secret set; empty when there is no such set. */
  readSecrets(deploymentId: string, secretSetId: string): Promise<Record<string, string>>;

  findTracingProject(deploymentId: string): Promise<TracingProjectRow | undefined>;
  settleTracingProject(deploymentId: string, externalId: string | null): Promise<void>;
  recordTracingFailure(deploymentId: string, failure: { message: string; retryAt: Date }): Promise<void>;
  deleteTracingProject(deploymentId: string): Promise<void>;
  /** Records that the project stays in the tracing backend. */
  detachTracingProject(deploymentId: string, because: string): Promise<void>;

  openIntegration(integration: {
    tenantId: string;
    id: string;
  }): Promise<{ row: IntegrationRow; secrets: IntegrationSecrets } | undefined>;
}

export interface DeploymentMove {
  from: DeploymentStatus;
  to: DeploymentStatus;
  /** Shown with the event. */
  message?: string | undefined;
  /** Made by a pass that reads the deployment again before it ends, so no further pass is needed. */
  byPass?: boolean;
  /** Recorded with the move: the engine of LangGraph.js projects that name none. */
  defaultEngine?: "postgres";
}

/** Port: the builds that listeners run in their clusters. */
export interface BuildOrders {
  /** Returns the database's time. */
  now(): Date;
  /** Orders a build from a listener. An earlier attempt at the same build is no longer wanted. */
  place(order: NewBuildOrder): Promise<void>;
  /** Returns how a build ended; null: it has not. undefined: its revision is gone. */
  readEnd(id: string): Promise<BuildEnd | null | undefined>;
  /** Withdraws a build. Its listener stops it. */
  drop(id: string): Promise<void>;
}

/** Port: what the build runner needs from the store. Leases end builds of servers that died. */
export interface BuildStore {
  /** Returns the database's time. */
  now(): Date;
  /** Returns whether this installation has workspaces besides this one. */
  hasOtherWorkspaces(tenantId: string): Promise<boolean>;
  /**
   * Claims the build of a revision and moves the revision to BUILDING.
   * @returns the process that an earlier owner may have left; undefined when another server has the build.
   */
  claimBuild(
    revision: { id: string; deploymentId: string },
    claim: { owner: string; leaseMs: number; deadlineAt: Date },
  ): Promise<OrphanedProcess | undefined>;
  recordBuildProcess(revisionId: string, worker: { owner: string; pid: number; pidStarted: string }): Promise<void>;
  /** Renews leases and returns the builds that this owner must stop. */
  renewBuilds(owner: string, revisionIds: string[], leaseMs: number): Promise<string[]>;
  /** Ends a build. Returns false when another server owns it by now, or it has ended already. */
  finishBuild(
    revisionId: string,
    end: { owner: string; status: "succeeded" | "failed" | "cancelled"; result: StoredBuildResult | null },
  ): Promise<boolean>;
  /** Takes over a build whose lease has run out; undefined when its owner is alive. */
  takeAbandonedBuild(
    revisionId: string,
    claim: { owner: string; leaseMs: number },
  ): Promise<OrphanedProcess | undefined>;
  /** Ends the leases of an owner at once, so that the next server begins its builds again. */
  releaseBuilds(owner: string): Promise<void>;
  appendLog(entries: NewLogEntry[]): Promise<void>;
}
