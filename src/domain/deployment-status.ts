import type { DeploymentStatus } from "../contract/deployments/deployment.ts";

/** The allowed transitions of a deployment (contract 5.1). Its row is deleted from AWAITING_FINAL_DELETE. */
const nextStatuses = {
  AWAITING_DATABASE: ["READY", "AWAITING_DELETE", "UNKNOWN"],
  READY: ["UNUSED", "AWAITING_DELETE", "UNKNOWN"],
  UNUSED: ["READY", "AWAITING_DELETE", "UNKNOWN"],
  UNKNOWN: ["AWAITING_DATABASE", "READY", "UNUSED", "AWAITING_DELETE"],
  AWAITING_DELETE: ["AWAITING_FINAL_DELETE"],
  AWAITING_FINAL_DELETE: [],
} as const satisfies Record<DeploymentStatus, readonly DeploymentStatus[]>;

export function canMoveDeployment(from: DeploymentStatus, to: DeploymentStatus): boolean {
  const allowed: readonly DeploymentStatus[] = nextStatuses[from];
  return allowed.includes(to);
}

export function isBeingDeleted(status: DeploymentStatus): boolean {
  return status === "AWAITING_DELETE" || status === "AWAITING_FINAL_DELETE";
}
