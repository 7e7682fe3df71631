import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "./database.ts";

export type KeyRole = "reader" | "deployer" | "listener" | "admin";

/** A key with what must be known of its workspace; both workspace fields are null for keys of an organization. */
export interface ApiKeyRow {
  id: string;
  organization_id: string;
  workspace_id: string | null;
  listener_id: string | null;
  name: string;
  role: KeyRole;
  prefix: string;
  /** SHA-256 of the whole key. */
  hash: Buffer;
  expires_at: Date | null;
  revoked_at: Date | null;
  last_used_at: Date | null;
  deployments_enabled: boolean | null;
}

export interface NewApiKey {
  prefix: string;
  hash: Buffer;
  organizationId: string;
  /** null: a key of the organization, good for each of its workspaces. */
  workspaceId: string | null;
  /** Whom the key speaks for in the listener protocol; needed by the role `listener`. */
  listenerId: string | null;
  name: string;
  role: KeyRole;
  expiresAt?: Date | null;
}

/** Writes a key that was minted before; the key itself is never stored. @returns its id. */
export async function insertApiKey(db: Db, made: NewApiKey): Promise<string> {
  const id = randomUUID();
  await sql`
    insert into api_keys (id, organization_id, workspace_id, listener_id, name, role, prefix, hash, expires_at)
    values (${id}, ${made.organizationId}, ${made.workspaceId}, ${made.listenerId}, ${made.name}, ${made.role},
      ${made.prefix}, ${made.hash}, ${made.expiresAt ?? null})`.execute(db.kysely);
  return id;
}

/** Also expired and revoked ones: who checks the key decides. */
export async function findApiKeyByPrefix(db: Db, prefix: string): Promise<ApiKeyRow | undefined> {
  const { rows } = await sql<ApiKeyRow>`
    select k.id, k.organization_id, k.workspace_id, k.listener_id, k.name, k.role, k.prefix, k.hash, k.expires_at,
           k.revoked_at, k.last_used_at, w.deployments_enabled
      from api_keys k left join workspaces w on w.id = k.workspace_id
     where k.prefix = ${prefix}`.execute(db.kysely);
  return rows[0];
}

/** @returns false when there is no such key, or it was revoked before. */
export async function revokeApiKey(db: Db, organizationId: string, id: string): Promise<boolean> {
  const { rows } = await sql`
    update api_keys set revoked_at = now()
     where id = ${id} and organization_id = ${organizationId} and revoked_at is null returning id`.execute(db.kysely);
  return rows.length > 0;
}

/** Ends all keys of a listener; whoever still uses one must be given another. */
export async function revokeListenerKeys(db: Db, listenerId: string): Promise<void> {
  await sql`update api_keys set revoked_at = now() where listener_id = ${listenerId} and revoked_at is null`.execute(
    db.kysely,
  );
}

/** Notes that a key was used. Exact to a minute: several servers then write a busy key's row once a minute, not per request. */
export async function touchApiKey(db: Db, id: string): Promise<void> {
  await sql`
    update api_keys set last_used_at = now()
     where id = ${id} and (last_used_at is null or last_used_at < now() - interval '1 minute')`.execute(db.kysely);
}
