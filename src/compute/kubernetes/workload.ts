import type { ClusterRun } from "../../contract/listeners/cluster.ts";

/** One revision of one deployment, as a cluster is to run it. */
export interface Workload {
  deploymentId: string;
  /** Who runs it. */
  listenerId: string;
  tenantId: string;
  revisionId: string;
  /** It ran before: a disk that was made larger since is not what it asks for, and stays. */
  isServing: boolean;
  /** Base of all names: at most 39 characters, a DNS label. */
  slug: string;
  /** Of the assignment, and of the session that applies it: what is older never replaces what is newer. */
  generation: number;
  epoch: number;
  image: string;
  /** Empty: the server has no such path, and an open port counts. */
  healthPath: string;
  /** Not secret. */
  env: Record<string, string>;
  /** Go into a Secret and nowhere else. Never logged. */
  secrets: Record<string, string>;
  startTimeoutMs: number;
  drainTimeoutMs: number;
  cluster: ClusterRun;
}

/** What is decided once per deployment and then kept: its data must not move because somebody installed an operator. */
export type DatabaseMode = "external" | "cnpg" | "plain";

/** The user asked for what this cluster, or its operator, does not offer. The message is for them. */
export class UnusableWorkload extends Error {
  override name = "UnusableWorkload";
}

/** The cluster may not do this for now: a quota is full, a policy or a missing right is in the way. */
export class ForbiddenWorkload extends Error {
  override name = "ForbiddenWorkload";
}

/** A newer session or a newer generation was here before: whoever holds this one stops. */
export class Superseded extends Error {
  override name = "Superseded";
}
