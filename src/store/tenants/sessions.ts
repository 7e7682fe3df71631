import type { MemberRole } from "../../contract/administration/member.ts";
import type { KeyScope } from "../../contract/administration/organization.ts";
import { batched } from "../engine/batched.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { type ApiKeyRow, findApiKey } from "./api-keys.ts";
import { audited } from "./audit.ts";
import type { MemberRow } from "./members.ts";

/** A person in one workspace or organization, with the required facts about it; it has the shape of a key. */
export interface MembershipRow extends Omit<MemberRow, "created_at" | "updated_at"> {
  listener_id: null;
  is_operator: false;
  deployments_enabled: boolean | null;
}

/** The holder of a session, and its end. */
export interface SessionRow {
  expires_at: Date;
  /** The key, or all memberships of the person (`findMemberships`); empty when they were ended. */
  holders: ApiKeyRow[] | MembershipRow[];
}

/** Creates a session for a key, with an audit row. Also deletes expired sessions. */
export async function createSession(
  db: Db,
  made: { tokenHash: Buffer; key: ApiKeyRow; expiresAt: Date },
  actor: string,
): Promise<void> {
  const { tokenHash, key, expiresAt } = made;
  const subject = { organizationId: key.organization_id, workspaceId: key.is_operator ? null : key.workspace_id };
  const note = { actor, action: "session.create", details: { expires_at: expiresAt } };
  await db.query(sql`
    with over as (delete from sessions where expires_at <= now()),
         made as (insert into sessions (token_hash, api_key_id, expires_at) values (${tokenHash}, ${key.id}, ${expiresAt}))
    ${audited({ ...subject, id: key.id, name: key.name }, note)}`);
}

/**
 * Stores the code of a sign-in link, with an audit row. A code is kept like a session, but under a digest that no cookie has.
 */
export async function createSignInCode(
  db: Db,
  made: { codeHash: Buffer; key: ApiKeyRow; expiresAt: Date },
  actor: string,
): Promise<void> {
  const { codeHash, key, expiresAt } = made;
  const subject = { organizationId: key.organization_id, workspaceId: key.is_operator ? null : key.workspace_id };
  const note = { actor, action: "session.link", details: { expires_at: expiresAt } };
  await db.query(sql`
    with over as (delete from sessions where expires_at <= now()),
         made as (insert into sessions (token_hash, api_key_id, expires_at) values (${codeHash}, ${key.id}, ${expiresAt}))
    ${audited({ ...subject, id: key.id, name: key.name }, note)}`);
}

/** Uses a sign-in code up, and returns its key; undefined when it never existed, was used, or has expired, or its key is gone. */
export async function useSignInCode(db: Db, codeHash: Buffer): Promise<ApiKeyRow | undefined> {
  const { rows } = await db.query<{ api_key_id: string | null; is_valid: boolean }>(sql`
    delete from sessions where token_hash = ${codeHash} returning api_key_id, expires_at > now() as is_valid`);
  const [code] = rows;
  if (code === undefined || !code.is_valid || code.api_key_id === null) return undefined;
  return findApiKey(db, { organizationId: null, workspaceId: null }, code.api_key_id);
}

/** Creates a session for a person, with an audit row in each workspace or organization where the person is a member. */
export async function createMemberSession(
  db: Db,
  made: { tokenHash: Buffer; memberships: readonly MembershipRow[]; email: string; expiresAt: Date },
): Promise<void> {
  const { tokenHash, memberships, email, expiresAt } = made;
  await db.transaction(async (trx) => {
    await trx.query(sql`
      with over as (delete from sessions where expires_at <= now())
      insert into sessions (token_hash, member_email, expires_at) values (${tokenHash}, ${email}, ${expiresAt})`);
    for (const { id, organization_id: organizationId, workspace_id: workspaceId } of memberships) {
      const note = { actor: `member:${id}`, action: "session.create", details: { expires_at: expiresAt } };
      await trx.query(audited({ organizationId, workspaceId, id, name: email }, note));
    }
  });
}

/** Returns a session; undefined when it never existed or has expired. The caller checks whether a key is still valid. */
export async function findSession(db: Db, tokenHash: Buffer): Promise<SessionRow | undefined> {
  const session = await findStored(db, tokenHash.toString("hex"));
  if (session === undefined) return undefined;
  const { api_key_id: keyId, member_email: email, expires_at } = session;
  if (email !== null) return { expires_at, holders: await findMemberships(db, email) };
  const key = await findApiKey(db, { organizationId: null, workspaceId: null }, keyId as string);
  return { expires_at, holders: key === undefined ? [] : [key] };
}

interface StoredSession {
  digest: string;
  api_key_id: string | null;
  member_email: string | null;
  expires_at: Date;
}

/** Concurrent lookups share one statement, so that guessed tokens cannot keep the database busy. */
const findStored = batched(async (db, digests: string[]): Promise<(StoredSession | undefined)[]> => {
  const { rows } = await db.query<StoredSession>(sql`
    select encode(token_hash, 'hex') as digest, api_key_id, member_email, expires_at from sessions
     where token_hash in (select decode(digest, 'hex') from unnest(${digests}::text[]) as digest) and expires_at > now()`);
  const byDigest = new Map(rows.map((row) => [row.digest, row]));
  return digests.map((digest) => byDigest.get(digest));
});

/**
 * The organizations that a person has belonged to for longest come first. Any administrator can make a person a member without being
 * asked, and must not choose the workspace in which that person works next.
 */
const seniority = sql`min(m.created_at) over (partition by m.organization_id), m.organization_id`;

/** Of two memberships for a workspace, the one with more rights there counts. */
const strength = sql`array_position(array['admin', 'deployer', 'reader'], m.role), m.workspace_id nulls first`;

/** Returns all memberships of an address, in lower case: those of the oldest organization first, and of these the strongest. */
export async function findMemberships(db: Db, email: string): Promise<MembershipRow[]> {
  const { rows } = await db.query<MembershipRow>(sql`
    select m.id, m.organization_id, m.workspace_id, m.email, m.name, m.role, null as listener_id,
           false as is_operator, w.deployments_enabled
      from members m left join workspaces w on w.id = m.workspace_id
     where m.email = ${email} order by ${seniority}, ${strength}, m.id`);
  return rows;
}

/** Returns the workspaces that a person can access, with the role in each: those of the oldest organization first, then by name. */
export async function listMemberWorkspaces(
  db: Db,
  email: string,
  limit: number,
): Promise<{ id: string; name: string; role: MemberRole; scope: KeyScope }[]> {
  const { rows } = await db.query<{ id: string; name: string; role: MemberRole; scope: KeyScope }>(sql`
    with found as (
      select distinct on (w.id) w.id, w.name, m.role, m.organization_id,
             case when m.workspace_id is null then 'organization' else 'workspace' end as scope
        from members m join workspaces w
          on w.organization_id = m.organization_id and (m.workspace_id is null or m.workspace_id = w.id)
       where m.email = ${email} order by w.id, ${strength})
    select f.id, f.name, f.role, f.scope
      from found f join (
        select m.organization_id, min(m.created_at) as since from members m where m.email = ${email} group by 1
      ) o on o.organization_id = f.organization_id
     order by o.since, o.organization_id, f.name, f.id limit ${limit}`);
  return rows;
}

/** Deletes a session, with an audit row wherever its sign-in has one. Does nothing when it has expired. */
export async function deleteSession(db: Db, tokenHash: Buffer): Promise<void> {
  const session = await findSession(db, tokenHash);
  await db.transaction(async (trx) => {
    const { rowCount } = await trx.query(sql`delete from sessions where token_hash = ${tokenHash}`);
    if (rowCount !== 1) return;
    for (const holder of session?.holders ?? []) {
      const isPerson = "email" in holder;
      const subject = {
        organizationId: holder.organization_id,
        workspaceId: holder.is_operator ? null : holder.workspace_id,
        id: holder.id,
        name: isPerson ? holder.email : holder.name,
      };
      const actor = `${isPerson ? "member" : "key"}:${holder.id}`;
      await trx.query(audited(subject, { actor, action: "session.delete" }));
    }
  });
}
