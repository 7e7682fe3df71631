import type { DeploymentStatus } from "../../src/contract/deployments/deployment.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import type { RevisionStatus } from "../../src/contract/revisions/revision.ts";
import type { Health } from "../../src/domain/deployment-health.ts";
import type { StoredBuildResult } from "../../src/store/builds/builds.ts";
import type { DeploymentStateRow } from "../../src/store/deployments/deployment-state.ts";

/** The row of a revision, and its fate, which the seed decides when the revision is created. */
export interface RevisionRecord {
  readonly id: string;
  readonly deploymentId: string;
  readonly minReplicas: number;
  /** An image that the user named; null: an upload, which is built. */
  readonly imageUri: string | null;
  readonly fate: { resolves: boolean; builds: boolean; buildMs: number };
  status: RevisionStatus;
  since: Date;
  message: string | null;
  deadlineAt: Date | null;
  artifactId: string | null;
  artifactKey: string | null;
}

/** The row of a build. */
export interface BuildRecord {
  status: "running" | "succeeded" | "failed" | "cancelled";
  owner: string;
  leaseUntil: Date;
  attempts: number;
  pid: number | null;
  pidStarted: string | null;
  result: StoredBuildResult | null;
}

/** The rows of one deployment. */
export interface DeploymentRecord {
  readonly id: string;
  /** Its state is on one replica at a time, so a new revision replaces the old one instead of running beside it. */
  readonly isStateful: boolean;
  readonly idleAfterMs: number | null;
  readonly revisions: RevisionRecord[];
  /** By revision. */
  readonly builds: Map<string, BuildRecord>;
  status: DeploymentStatus;
  activeRevisionId: string | null;
  health: Health;
  observation: { generation: number; report: DeploymentReport; epoch: number } | null;
}

/** Returns a revision as the state of its deployment has it. */
export const unsettledRowOf = (revision: RevisionRecord): DeploymentStateRow["unsettled"][number] => ({
  id: revision.id,
  status: revision.status,
  since: revision.since.toISOString(),
  message: revision.message,
  deadline_at: revision.deadlineAt?.toISOString() ?? null,
  has_artifact: revision.artifactId !== null,
  traceparent: null,
});

/** Returns a build as the state of its deployment has it. */
export const buildRowOf = ([revisionId, build]: [string, BuildRecord]): DeploymentStateRow["builds"][number] => ({
  revision_id: revisionId,
  status: build.status,
  lease_until: build.leaseUntil.toISOString(),
  attempts: build.attempts,
  failure: build.result?.failure ?? null,
  reason: build.result?.reason ?? null,
});
