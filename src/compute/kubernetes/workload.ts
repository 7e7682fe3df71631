import type { Engine } from "../../contract/listeners/assignment.ts";
import type { ClusterRun } from "../../contract/listeners/cluster.ts";

/** One revision of one deployment for a cluster to run. */
export interface Workload {
  deploymentId: string;
  /** Listener that runs it. */
  listenerId: string;
  tenantId: string;
  revisionId: string;
  /** This revision has served before. Its disk may have grown since, and then keeps its size. */
  isServing: boolean;
  /** Prefix of all object names: a DNS label of at most 39 characters. */
  slug: string;
  /** Generation of the assignment, and epoch of the session that applies it. An older pair never replaces a newer one. */
  generation: number;
  epoch: number;
  image: string;
  /** Empty: the server has no health path, and an open port counts as healthy. */
  healthPath: string;
  /** What keeps its threads and runs. Absent: the image does not say. */
  engine?: Engine | undefined;
  /** Callers that the gateway in the cluster admits: those of one workspace, or of any if null. Absent: all. */
  admission?: { workspaceId: string | null } | undefined;
  /** Whether it may have no replica while nothing calls it, if a gateway in the cluster can wake it. */
  maySleep: boolean;
  /** Not secret. */
  env: Record<string, string>;
  /** Written to a Secret only. Never log them. */
  secrets: Record<string, string>;
  /** Whether DATABASE_URL is the address of its database too. */
  asksForDatabase?: boolean;
  /** Whether its first replica is ready before others start, see the artifact. */
  startsAlone?: boolean;
  /** No revision has served before, so there are no replicas that must stay. */
  isFirst?: boolean;
  startTimeoutMs: number;
  drainTimeoutMs: number;
  cluster: ClusterRun;
}

/** Kind of database, chosen once per deployment: its data must not move when an operator is installed later. */
export type DatabaseMode = "external" | "cnpg" | "plain";

/** The user requested something that this cluster or its operator does not offer. The message is for the user. */
export class UnusableWorkload extends Error {
  override name = "UnusableWorkload";
}

/** The cluster forbids it at the moment: a quota is full, or a policy or a missing right prevents it. */
export class ForbiddenWorkload extends Error {
  override name = "ForbiddenWorkload";
}

/** A newer session or generation has been applied before. The caller must stop. */
export class Superseded extends Error {
  override name = "Superseded";
}
