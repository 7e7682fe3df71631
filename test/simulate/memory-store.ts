import { randomUUID } from "node:crypto";
import type { HealthWord } from "../../src/contract/deployments/health.ts";
import type { Artifact, DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import type { Health } from "../../src/domain/deployment-health.ts";
import { canMoveDeployment, isBeingDeleted } from "../../src/domain/deployment-status.ts";
import { canMoveRevision, isFinal } from "../../src/domain/revision-status.ts";
import type { BuildStore, DeploymentMove, ReconcilerStore } from "../../src/reconciler/store.ts";
import type { ArtifactRow } from "../../src/store/builds/artifacts.ts";
import type { OrphanedProcess, StoredBuildResult } from "../../src/store/builds/builds.ts";
import type { BuiltArtifact } from "../../src/store/builds/built-artifacts.ts";
import type { UploadRow } from "../../src/store/builds/uploads.ts";
import type { AssignedRevisionRow, DesiredAssignment } from "../../src/store/data-plane/assigned-revisions.ts";
import type { NewAssignment, ReplacedAssignment } from "../../src/store/data-plane/assignments.ts";
import type { DatabaseSettingsRow, DeploymentDatabase } from "../../src/store/deployments/deployment-databases.ts";
import type { DeploymentStateRow } from "../../src/store/deployments/deployment-state.ts";
import type { RevisionMove, RevisionRow } from "../../src/store/revisions/revisions.ts";
import type { ControlPlane } from "../listener/control-plane.ts";
import { type BuildRecord, buildRowOf, type DeploymentRecord, type RevisionRecord, unsettledRowOf } from "./records.ts";
import { noOrigin, replicasMinOf, settingsOf, slugOf } from "./revision-settings.ts";

export const tenantId = "7a9d6ab0-1f9c-4d9b-8f5f-6c2f6a3f0001";
/** Begins the error of a row that refers to a deleted one. */
export const foreignKeyViolation = "foreign key violation";
const listenerId = "7a9d6ab0-1f9c-4d9b-8f5f-6c2f6a3f0002";

/**
 * The store of the reconciler in memory, with the rules of the SQL in `src/store`: each method is one statement, moves
 * are compare-and-swap, builds have leases and assignments have generations. Parts of the port that no history uses
 * answer as an empty database does.
 */
export class MemoryStore implements ReconcilerStore, BuildStore {
  readonly deployments = new Map<string, DeploymentRecord>();
  /** Called after each statement that changes a row. */
  onChange: () => void = () => {};
  readonly #revisions = new Map<string, RevisionRecord>();
  readonly #artifacts = new Map<string, ArtifactRow>();
  readonly #databases = new Map<string, DeploymentDatabase>();
  readonly #clock: { now(): number };
  readonly #assignments: ControlPlane;
  readonly #queue: { enqueue(deploymentId: string): void; forget(deploymentId: string): void };

  /** @param assignments serves what this store assigns to the listener */
  constructor(
    clock: { now(): number },
    assignments: ControlPlane,
    queue: { enqueue(deploymentId: string): void; forget(deploymentId: string): void },
  ) {
    this.#clock = clock;
    this.#assignments = assignments;
    this.#queue = queue;
  }

  now(): Date {
    return new Date(this.#clock.now());
  }

  reached(): void {}

  wake(): void {}

  createDeployment(deployment: DeploymentRecord): void {
    this.deployments.set(deployment.id, deployment);
    for (const revision of deployment.revisions) this.#revisions.set(revision.id, revision);
    this.#enqueue(deployment.id);
  }

  createRevision(revision: RevisionRecord): void {
    const deployment = this.deployments.get(revision.deploymentId);
    if (deployment === undefined || isBeingDeleted(deployment.status)) return;
    deployment.revisions.push(revision);
    this.#revisions.set(revision.id, revision);
    this.#enqueue(deployment.id);
  }

  findRevision(id: string): RevisionRecord | undefined {
    return this.#revisions.get(id);
  }

  /** Stores a report, unless it is of an older session or has an older number of the same session. */
  storeReport(report: DeploymentReport, epoch: number): void {
    const deployment = this.deployments.get(report.deployment_id);
    if (deployment === undefined) return;
    const before = deployment.observation;
    const isNews =
      before === null || before.epoch < epoch || (before.epoch === epoch && before.report.seq < report.seq);
    if (!isNews) return;
    deployment.observation = { generation: report.generation, report, epoch };
    this.#enqueue(deployment.id);
  }

  async readDeploymentState(id: string): Promise<DeploymentStateRow | undefined> {
    const deployment = this.deployments.get(id);
    if (deployment === undefined) return undefined;
    const assignment = this.#assignments.assignments.get(id);
    const latest = deployment.revisions.at(-1);
    const builds = [...deployment.builds].filter(
      ([revisionId, { status }]) => status === "running" || this.#revisions.get(revisionId)?.status === "BUILDING",
    );
    return {
      id,
      tenant_id: tenantId,
      status: deployment.status,
      active_revision_id: deployment.activeRevisionId,
      force_delete: false,
      health: deployment.health,
      latest: latest === undefined ? null : { id: latest.id, status: latest.status, message: null, failure: null },
      listener: "acting",
      unsettled: deployment.revisions.filter(({ status }) => !isFinal(status)).map(unsettledRowOf),
      builds: builds.map(buildRowOf),
      assignment:
        assignment === undefined
          ? null
          : {
              generation: assignment.generation,
              op: assignment.op,
              target_revision_id: assignment.target?.revision_id ?? null,
              serving_revision_id: assignment.serving?.revision_id ?? null,
              target_replicas_min: replicasMinOf(assignment.target),
              serving_replicas_min: replicasMinOf(assignment.serving),
              is_current: true,
            },
      observation: deployment.observation,
      tracing: null,
      drops_tracing: false,
      host: null,
    };
  }

  async moveDeployment(id: string, { from, to, byPass }: DeploymentMove): Promise<boolean> {
    if (!canMoveDeployment(from, to)) throw new RangeError(`deployment cannot move ${from} -> ${to}`);
    const deployment = this.deployments.get(id);
    if (deployment?.status !== from) return false;
    deployment.status = to;
    this.#changed(id, byPass);
    return true;
  }

  async recordHealth(id: string, { seen, health }: { seen: HealthWord; health: Health }): Promise<boolean> {
    const deployment = this.deployments.get(id);
    if (deployment?.health.word !== seen) return false;
    deployment.health = health;
    this.onChange();
    return true;
  }

  async findOrphanedPreviews(): Promise<[]> {
    return [];
  }

  async requestDelete(_tenantId: string, id: string): Promise<boolean> {
    const deployment = this.deployments.get(id);
    if (deployment === undefined) return false;
    if (!isBeingDeleted(deployment.status)) deployment.status = "AWAITING_DELETE";
    deployment.health = { word: "deleting", reason: null, message: null, failure: null };
    for (const revision of deployment.revisions) {
      if (!isFinal(revision.status)) Object.assign(revision, { status: "INTERRUPTED", deadlineAt: null });
    }
    this.#enqueue(id);
    return true;
  }

  async deleteLogs(): Promise<void> {}

  async deleteDeployment(id: string): Promise<boolean> {
    const deployment = this.deployments.get(id);
    if (deployment?.status !== "AWAITING_FINAL_DELETE") return false;
    this.deployments.delete(id);
    this.#databases.delete(id);
    for (const revision of deployment.revisions) this.#revisions.delete(revision.id);
    this.#assignments.forget(id);
    this.#queue.forget(id);
    this.onChange();
    return true;
  }

  async readRevision(id: string): Promise<RevisionRow | undefined> {
    const revision = this.#revisions.get(id);
    if (revision === undefined) return undefined;
    const then = new Date(0);
    return {
      id,
      tenant_id: tenantId,
      deployment_id: revision.deploymentId,
      status: revision.status,
      status_message: null,
      failure: null,
      status_since: then,
      deadline_at: revision.deadlineAt,
      ...settingsOf(revision),
      secret_set_id: null,
      secret_references: null,
      sizes: null,
      artifact_id: revision.artifactId,
      artifact_key: revision.artifactKey,
      redeploy_of: null,
      triggered_by: "api",
      image_version: null,
      tracked_packages: null,
      ...noOrigin,
      created_at: then,
      updated_at: then,
      engine: null,
      engine_because: null,
      rollout: null,
      artifact_digest: null,
      builder_version: null,
    };
  }

  async moveRevision({ id }: { id: string; deploymentId: string }, move: RevisionMove): Promise<boolean> {
    const { from, to, deadlineAt, set = {}, assignment, byPass } = move;
    if (!canMoveRevision(from, to)) throw new RangeError(`revision cannot move ${from} -> ${to}`);
    const revision = this.#revisions.get(id);
    const deployment = this.deployments.get(revision?.deploymentId ?? "");
    if (revision?.status !== from || deployment === undefined) return false;
    Object.assign(revision, { status: to, deadlineAt, since: this.now(), message: move.message ?? null });
    if (set.artifact_id !== undefined) revision.artifactId = set.artifact_id;
    revision.artifactKey = set.artifact_key ?? revision.artifactKey;
    if (to === "DEPLOYED")
      Object.assign(deployment, { activeRevisionId: id, health: move.health ?? deployment.health });
    const assigned = this.#assignments.assignments.get(deployment.id);
    if (assignment === "proven" && assigned !== undefined) {
      this.#assignments.assign({ deployment_id: deployment.id, serving: assigned.target });
    }
    if (assignment !== undefined && assignment !== "proven") this.#assign(assignment);
    this.#changed(deployment.id, byPass);
    return true;
  }

  async skipRevisions(ids: string[]): Promise<void> {
    for (const id of ids) {
      const revision = this.#revisions.get(id);
      if (revision?.status === "QUEUED") Object.assign(revision, { status: "SKIPPED", deadlineAt: null });
    }
    this.onChange();
  }

  async describeRollout(id: string, message: string): Promise<boolean> {
    const revision = this.#revisions.get(id);
    if (revision?.status !== "DEPLOYING") return false;
    revision.message = message;
    return true;
  }

  async postponeDeadline({ id, status }: Pick<RevisionRow, "id" | "status">, until: Date): Promise<void> {
    const revision = this.#revisions.get(id);
    if (revision?.status !== status || revision.deadlineAt === null || revision.deadlineAt >= until) return;
    revision.deadlineAt = until;
  }

  async appendLog(): Promise<void> {}

  async readAssignedRevisions(desired: DesiredAssignment): Promise<AssignedRevisionRow[]> {
    const deployment = this.deployments.get(desired.deploymentId);
    if (deployment === undefined) return [];
    const ids = [desired.targetRevisionId, desired.servingRevisionId];
    const revisions = deployment.revisions.filter(({ id }) => ids.includes(id));
    return (revisions.length === 0 ? [undefined] : revisions).map((revision) => ({
      deployment_id: deployment.id,
      tenant_id: tenantId,
      listener_id: listenerId,
      slug: slugOf(deployment.id),
      namespace: null,
      agents_url: null,
      name: "agent",
      shareable: false,
      revision_id: revision?.id ?? null,
      ...settingsOf(revision),
      agent: null,
      tracing_project: "agent",
      secret_set_id: null,
      secret_references: null,
      is_builtin: true,
      sizes: null,
      manifest: this.#artifacts.get(revision?.artifactId ?? "")?.manifest ?? null,
    }));
  }

  async writeAssignment({ seen, ...assignment }: ReplacedAssignment): Promise<boolean> {
    const generation = this.#assignments.assignments.get(assignment.deployment_id)?.generation ?? 0;
    if (generation !== seen) return false;
    this.#assign(assignment);
    this.onChange();
    return true;
  }

  #assign({ deployment_id, op, target, serving, idle_after_ms }: NewAssignment): void {
    this.#assignments.assign({ deployment_id, op, target, serving, idle_after_ms });
  }

  /** The upload of a revision that cannot be resolved is gone. */
  async findUpload(deploymentId: string, objectPath: string): Promise<UploadRow | undefined> {
    const revision = this.#revisions.get(objectPath);
    if (revision?.deploymentId !== deploymentId || !revision.fate.resolves) return undefined;
    const then = new Date(0);
    return {
      id: objectPath,
      tenant_id: tenantId,
      deployment_id: deploymentId,
      object_path: objectPath,
      sha256: objectPath,
      size_bytes: 1,
      expires_at: then,
      finished_at: then,
    };
  }

  async findArtifact(id: string): Promise<ArtifactRow | undefined> {
    return this.#artifacts.get(id);
  }

  async findArtifactByKey(_tenantId: string, key: string): Promise<ArtifactRow | undefined> {
    return [...this.#artifacts.values()].find((artifact) => artifact.key === key);
  }

  async saveArtifact(tenant: string, key: string, manifest: Artifact): Promise<string> {
    const { id } = (await this.findArtifactByKey(tenant, key)) ?? { id: randomUUID() };
    this.#artifacts.set(id, { id, key, manifest });
    return id;
  }

  async findBuiltArtifact(revisionId: string): Promise<BuiltArtifact | undefined> {
    const revision = this.#revisions.get(revisionId);
    const build = this.#buildOf(revisionId);
    if (build?.status !== "succeeded") return undefined;
    return { artifact: build.result?.artifact as Artifact, artifact_key: revision?.artifactKey ?? "" };
  }

  async acceptArtifact(
    revision: { id: string; deploymentId: string; tenantId: string },
    built: BuiltArtifact,
    deadlineAt: Date | null,
  ): Promise<void> {
    const artifactId = await this.saveArtifact(tenantId, built.artifact_key, built.artifact);
    await this.moveRevision(revision, {
      from: "BUILDING",
      to: "AWAITING_DEPLOY",
      because: "the artifact is ready",
      deadlineAt,
      set: { artifact_id: artifactId },
      byPass: true,
    });
  }

  async deleteArtifacts(deploymentId: string): Promise<ArtifactRow[]> {
    const users = Map.groupBy(this.#revisions.values(), ({ artifactId }) => artifactId);
    const deleted: ArtifactRow[] = [];
    for (const [id, revisions] of users) {
      const artifact = this.#artifacts.get(id ?? "");
      if (artifact === undefined || revisions.some((revision) => revision.deploymentId !== deploymentId)) continue;
      for (const revision of revisions) revision.artifactId = null;
      this.#artifacts.delete(artifact.id);
      deleted.push(artifact);
    }
    return deleted;
  }

  async isArtifactKeyUsed(key: string): Promise<boolean> {
    return (await this.findArtifactByKey(tenantId, key)) !== undefined;
  }

  readonly findBuildQuotaProblem = async (): Promise<null> => null;
  readonly readImageRegistry = async (): Promise<null> => null;

  /** All deployments of a history are in one workspace. */
  async hasOtherWorkspaces(): Promise<boolean> {
    return false;
  }

  async claimBuild(
    { id, deploymentId }: { id: string; deploymentId: string },
    claim: { owner: string; leaseMs: number; deadlineAt: Date },
  ): Promise<OrphanedProcess | undefined> {
    const revision = this.#revisions.get(id);
    if (revision?.status === "AWAITING_BUILD") {
      Object.assign(revision, { status: "BUILDING", deadlineAt: claim.deadlineAt });
      this.#enqueue(deploymentId);
    }
    const before = this.#buildOf(id);
    const isFree = before === undefined || before.status === "cancelled" || this.#isAbandoned(before);
    if (revision?.status !== "BUILDING" || !isFree) return undefined;
    revision.deadlineAt = claim.deadlineAt;
    this.deployments.get(deploymentId)?.builds.set(id, {
      status: "running",
      owner: claim.owner,
      leaseUntil: this.#in(claim.leaseMs),
      attempts: (before?.attempts ?? 0) + 1,
      pid: null,
      pidStarted: null,
      result: null,
    });
    this.onChange();
    return { pid: before?.pid ?? null, pidStarted: before?.pidStarted ?? null };
  }

  async recordBuildProcess(
    revisionId: string,
    { owner, pid, pidStarted }: { owner: string; pid: number; pidStarted: string },
  ): Promise<void> {
    const build = this.#buildOf(revisionId);
    if (build?.owner === owner) Object.assign(build, { pid, pidStarted });
  }

  async renewBuilds(owner: string, revisionIds: string[], leaseMs: number): Promise<string[]> {
    return revisionIds.filter((id) => {
      const build = this.#buildOf(id);
      if (build?.owner !== owner || build.status !== "running") return true;
      build.leaseUntil = this.#in(leaseMs);
      return this.#revisions.get(id)?.status !== "BUILDING";
    });
  }

  async finishBuild(
    revisionId: string,
    end: { owner: string; status: "succeeded" | "failed" | "cancelled"; result: StoredBuildResult | null },
  ): Promise<boolean> {
    const build = this.#buildOf(revisionId);
    if (build?.owner !== end.owner || build.status !== "running") return false;
    Object.assign(build, { status: end.status, result: end.result, pid: null, pidStarted: null });
    this.#enqueue(this.#revisions.get(revisionId)?.deploymentId ?? "");
    return true;
  }

  async takeAbandonedBuild(
    revisionId: string,
    { owner, leaseMs }: { owner: string; leaseMs: number },
  ): Promise<OrphanedProcess | undefined> {
    const build = this.#buildOf(revisionId);
    if (build === undefined || !this.#isAbandoned(build)) return undefined;
    Object.assign(build, { owner, leaseUntil: this.#in(leaseMs) });
    return { pid: build.pid, pidStarted: build.pidStarted };
  }

  async releaseBuilds(): Promise<void> {}

  async findDatabaseKinds(deploymentId: string): Promise<DeploymentDatabase | undefined> {
    return this.#databases.get(deploymentId);
  }

  async findDatabase({ id }: { id: string }): Promise<DeploymentDatabase | undefined> {
    return this.#databases.get(id);
  }

  async planDatabase(
    { id }: { id: string },
    kinds: Pick<DeploymentDatabase, "postgres" | "redis">,
  ): Promise<DeploymentDatabase> {
    if (!this.deployments.has(id)) throw new Error(`${foreignKeyViolation}: deployment ${id} is gone`);
    const planned = this.#databases.get(id) ?? { ...kinds, password: "secret" };
    this.#databases.set(id, planned);
    return planned;
  }

  async readDefaultEngine() {
    return null;
  }

  async readDatabaseSettings(deploymentId: string): Promise<DatabaseSettingsRow | undefined> {
    const latest = this.deployments.get(deploymentId)?.revisions.at(-1);
    return latest && { ...settingsOf(latest), secret_set_id: null };
  }

  async readSecrets(): Promise<Record<string, string>> {
    return {};
  }

  async findTracingProject(): Promise<undefined> {}

  async settleTracingProject(): Promise<void> {}

  async recordTracingFailure(): Promise<void> {}

  async deleteTracingProject(): Promise<void> {}

  async detachTracingProject(): Promise<void> {}

  async openIntegration(): Promise<undefined> {}

  #buildOf(revisionId: string): BuildRecord | undefined {
    return this.deployments.get(this.#revisions.get(revisionId)?.deploymentId ?? "")?.builds.get(revisionId);
  }

  #isAbandoned({ status, leaseUntil }: BuildRecord): boolean {
    return status === "running" && leaseUntil.getTime() < this.#clock.now();
  }

  #in(delayMs: number): Date {
    return new Date(this.#clock.now() + delayMs);
  }

  #changed(deploymentId: string, byPass = false): void {
    if (!byPass) this.#queue.enqueue(deploymentId);
    this.onChange();
  }

  #enqueue(deploymentId: string): void {
    this.#changed(deploymentId);
  }
}
