import type { Db } from "../engine/database.ts";
import { audited } from "../tenants/audit.ts";
import type { DeploymentRow } from "./deployments.ts";

/** Writes the audit row of a program that a user starts beside an agent. Its arguments may have secrets, so they are left out. */
export async function recordExec(
  db: Db,
  { id, name, tenant_id: workspaceId }: Pick<DeploymentRow, "id" | "name" | "tenant_id">,
  started: { organizationId: string; actor: string; program: string; replicaId: string },
): Promise<void> {
  const { organizationId, actor, program, replicaId } = started;
  const subject = { organizationId, workspaceId, deploymentId: id, id, name };
  await db.query(audited(subject, { actor, action: "deployment.exec", details: { program, replica_id: replicaId } }));
}

/** Writes the audit row of a call with which a user of the console makes an agent do something. */
export async function recordAgentCall(
  db: Db,
  { id, name, tenant_id: workspaceId }: Pick<DeploymentRow, "id" | "name" | "tenant_id">,
  call: { organizationId: string; actor: string; action: "agent.call" | "agent.answer"; verb: string; path: string },
): Promise<void> {
  const { organizationId, actor, action, verb, path } = call;
  const subject = { organizationId, workspaceId, deploymentId: id, id, name };
  await db.query(audited(subject, { actor, action, details: { verb, path } }));
}

/** Writes the audit row of a connection that a user opens to an agent through its listener. */
export async function recordConnect(
  db: Db,
  { id, name, tenant_id: workspaceId }: Pick<DeploymentRow, "id" | "name" | "tenant_id">,
  { organizationId, actor }: { organizationId: string; actor: string },
): Promise<void> {
  const subject = { organizationId, workspaceId, deploymentId: id, id, name };
  await db.query(audited(subject, { actor, action: "deployment.connect", details: {} }));
}
