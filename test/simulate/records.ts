import type { DeploymentStatus } from "../../src/contract/deployments/deployment.ts";
import type { DeploymentReport, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import type { RevisionStatus } from "../../src/contract/revisions/revision.ts";
import { canMoveDeployment } from "../../src/domain/deployment-status.ts";
import { canMoveRevision, isFinal } from "../../src/domain/revision-status.ts";
import type { BuildFacts, DeploymentState } from "../../src/reconciler/plan/state.ts";

/** The row of a revision, and what is going to become of it: its seed decided that when it was made. */
export interface RevisionRecord {
  readonly id: string;
  readonly run: RevisionRun;
  readonly fate: { resolves: boolean; builds: boolean; buildMs: number };
  status: RevisionStatus;
  deadlineAt: Date | null;
  hasArtifact: boolean;
}

export interface BuildRecord extends BuildFacts {
  owner: string;
}

/** The rows of one deployment. Every write below is one statement of the store: it happens whole, or not at all. */
export class DeploymentRecord {
  readonly revisions: RevisionRecord[] = [];
  readonly builds = new Map<string, BuildRecord>();
  status: DeploymentStatus = "AWAITING_DATABASE";
  activeRevisionId: string | null = null;
  isDeleteForced = false;
  observation: { generation: number; report: DeploymentReport; epoch: number } | null = null;
  readonly id: string;
  readonly isStateful: boolean;
  readonly idleAfterMs: number | null;

  constructor(id: string, kind: { isStateful: boolean; idleAfterMs: number | null }) {
    this.id = id;
    this.isStateful = kind.isStateful;
    this.idleAfterMs = kind.idleAfterMs;
  }

  revision(id: string): RevisionRecord {
    const found = this.revisions.find((revision) => revision.id === id);
    if (found === undefined) throw new Error(`no revision ${id}`);
    return found;
  }

  /** Compare-and-swap. @returns false: somebody was faster. */
  moveRevision(id: string, from: RevisionStatus, to: RevisionStatus, deadlineAt: Date | null): boolean {
    const revision = this.revision(id);
    if (revision.status !== from) return false;
    if (!canMoveRevision(from, to)) throw new Error(`revision ${id} cannot move ${from} -> ${to}`);
    revision.status = to;
    revision.deadlineAt = deadlineAt;
    return true;
  }

  moveDeployment(from: DeploymentStatus, to: DeploymentStatus): boolean {
    if (this.status !== from) return false;
    if (!canMoveDeployment(from, to)) throw new Error(`deployment ${this.id} cannot move ${from} -> ${to}`);
    this.status = to;
    return true;
  }

  /** As the store does: an older session, or an older number of the same one, is no news. */
  observe(report: DeploymentReport, epoch: number): boolean {
    const before = this.observation;
    const isNews =
      before === null || before.epoch < epoch || (before.epoch === epoch && before.report.seq < report.seq);
    if (isNews) this.observation = { generation: report.generation, report, epoch };
    return isNews;
  }

  /** What one pass reads, of one moment. */
  read(assignment: DeploymentState["assignment"], now: Date): DeploymentState {
    const builds = [...this.builds.values()].filter(
      ({ revisionId, status }) => status === "running" || this.revision(revisionId).status === "BUILDING",
    );
    return {
      id: this.id,
      tenantId: "7a9d6ab0-1f9c-4d9b-8f5f-6c2f6a3f0001",
      status: this.status,
      activeRevisionId: this.activeRevisionId,
      isDeleteForced: this.isDeleteForced,
      listener: "acting",
      unsettled: this.revisions
        .filter(({ status }) => !isFinal(status))
        .map(({ id, status, deadlineAt, hasArtifact }) => ({ id, status, deadlineAt, hasArtifact, traceparent: null })),
      builds: builds.map((build) => ({ ...build, abandoned: build.status === "running" && build.leaseUntil < now })),
      assignment,
      observation: this.observation,
      tracing: null,
      host: null,
    };
  }
}
