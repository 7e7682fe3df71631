import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Plan } from "../domain/mode.ts";
import type { Db } from "./database.ts";

/** A tenant: what deployments belong to. Users call it a workspace. */
export interface WorkspaceRow {
  id: string;
  organization_id: string;
  name: string;
  /** false: the operator has switched deployments off here. */
  deployments_enabled: boolean;
  plan: Plan;
}

export async function createOrganization(db: Db, made: { name: string; plan: Plan }): Promise<string> {
  const id = randomUUID();
  await sql`insert into organizations (id, name, plan) values (${id}, ${made.name}, ${made.plan})`.execute(db.kysely);
  return id;
}

export async function createWorkspace(db: Db, made: { organizationId: string; name: string }): Promise<string> {
  const id = randomUUID();
  await sql`
    insert into workspaces (id, organization_id, name) values (${id}, ${made.organizationId}, ${made.name})`.execute(
    db.kysely,
  );
  return id;
}

/** @param id must be a uuid: what a client sent is checked before. */
export async function findWorkspace(db: Db, id: string): Promise<WorkspaceRow | undefined> {
  const { rows } = await sql<WorkspaceRow>`
    select w.id, w.organization_id, w.name, w.deployments_enabled, o.plan
      from workspaces w join organizations o on o.id = w.organization_id
     where w.id = ${id}`.execute(db.kysely);
  return rows[0];
}

/** Switches the deployments API of a workspace on or off; what runs there goes on running. */
export async function setDeploymentsEnabled(db: Db, workspaceId: string, isEnabled: boolean): Promise<void> {
  await sql`update workspaces set deployments_enabled = ${isEnabled} where id = ${workspaceId}`.execute(db.kysely);
}
