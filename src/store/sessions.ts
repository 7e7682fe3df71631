import { sql } from "kysely";
import { type ApiKeyRow, keyColumns } from "./api-keys.ts";
import { audited } from "./audit.ts";
import type { Db } from "./database.ts";

/** The key that a session stands for, and until when it does. */
export interface SessionRow extends ApiKeyRow {
  session_expires_at: Date;
}

/** Signs the holder of a token in as a key, with a row in the audit log. Sessions that are over go. */
export async function createSession(
  db: Db,
  made: { tokenHash: Buffer; key: ApiKeyRow; expiresAt: Date },
  actor: string,
): Promise<void> {
  const { tokenHash, key, expiresAt } = made;
  const subject = { organizationId: key.organization_id, workspaceId: key.is_operator ? null : key.workspace_id };
  const note = { actor, action: "session.create", details: { expires_at: expiresAt } };
  await sql`
    with over as (delete from sessions where expires_at <= now()),
         made as (insert into sessions (token_hash, api_key_id, expires_at) values (${tokenHash}, ${key.id}, ${expiresAt}))
    ${audited({ ...subject, id: key.id, name: key.name }, note)}`.execute(db.kysely);
}

/** undefined: never, or over. Whether the key itself is still good is for who checks it. */
export async function findSession(db: Db, tokenHash: Buffer): Promise<SessionRow | undefined> {
  const { rows } = await sql<SessionRow>`
    select ${keyColumns}, n.expires_at as session_expires_at
      from sessions n join api_keys k on k.id = n.api_key_id left join workspaces w on w.id = k.workspace_id
     where n.token_hash = ${tokenHash} and n.expires_at > now()`.execute(db.kysely);
  return rows[0];
}

export async function deleteSession(db: Db, tokenHash: Buffer): Promise<void> {
  await sql`delete from sessions where token_hash = ${tokenHash}`.execute(db.kysely);
}
