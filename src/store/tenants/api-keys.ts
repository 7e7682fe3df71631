import { randomUUID } from "node:crypto";
import type { KeyScope } from "../../contract/administration/organization.ts";
import { errors } from "../../contract/error.ts";
import { batched } from "../engine/batched.ts";
import { type Db, isForeignKeyViolation, type Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { audited } from "./audit.ts";
import { type Reach, within } from "./scope.ts";
import { apiKeysTable } from "./tables.ts";

export type KeyRole = "caller" | "reader" | "agent" | "deployer" | "listener" | "admin";

const keyFields = pick(
  apiKeysTable,
  "id",
  "organization_id",
  "workspace_id",
  "listener_id",
  "name",
  "role",
  "is_operator",
  "one_time",
  "parent_id",
  "member_id",
  "prefix",
  "hash",
  "created_at",
  "expires_at",
  "expires_at_once_used",
  "revoked_at",
  "last_used_at",
);

/** A key with the required facts about its workspace. */
export interface ApiKeyRow extends RowOf<typeof keyFields> {
  deployments_enabled: boolean | null;
}

export interface NewApiKey {
  prefix: string;
  hash: Buffer;
  organizationId: string;
  /** null: a key of the organization, valid for each of its workspaces. */
  workspaceId: string | null;
  /** The listener that uses the key in the listener protocol; required for the role `listener`. */
  listenerId: string | null;
  name: string;
  role: KeyRole;
  isOperator?: boolean;
  expiresAt?: Date | null;
  /** Replaces `expiresAt` when the key is used for the first time. */
  expiresAtOnceUsed?: Date | null;
  /** The key or the member that the key ends with, when a command line got it by a login. */
  parentId?: string | null;
  memberId?: string | null;
}

/** Returns the scope of a key. */
export function scopeOf(key: Pick<ApiKeyRow, "is_operator" | "workspace_id">): KeyScope {
  if (key.is_operator) return "installation";
  return key.workspace_id === null ? "organization" : "workspace";
}

/** Returns when a key expires that is in use; null: never. */
export const endOfKey = (key: Pick<ApiKeyRow, "expires_at" | "expires_at_once_used">): Date | null =>
  key.expires_at_once_used ?? key.expires_at;

/** Columns of `api_keys k left join workspaces w`. */
const keyColumns = sql`${selectList(keyFields, "k")}, w.deployments_enabled`;

/** Writes a key that was generated before, without an audit row; the key itself is never stored. @returns its id. */
export async function insertApiKey(db: Db, made: NewApiKey): Promise<string> {
  const id = randomUUID();
  await db.query(insertedKey(id, made));
  return id;
}

/**
 * Writes a key that a user requested, with an audit row.
 * @throws ApiError 404 when its workspace was deleted meanwhile.
 */
export async function createApiKey(db: Db | Trx, made: NewApiKey, actor: string): Promise<ApiKeyRow> {
  const id = randomUUID();
  const { organizationId, workspaceId, name, role } = made;
  const expiresAt = made.expiresAtOnceUsed ?? made.expiresAt ?? null;
  const details = { role, scope: scopeOf({ is_operator: made.isOperator ?? false, workspace_id: workspaceId }) };
  const note = { actor, action: "api_key.create", details: { ...details, expires_at: expiresAt } };
  const subject = { organizationId, workspaceId: made.isOperator ? null : workspaceId, id, name };
  try {
    await db.query(sql`with key as (${insertedKey(id, made)}) ${audited(subject, note)}`);
  } catch (error) {
    if (isForeignKeyViolation(error) && workspaceId !== null) throw errors.workspaceNotFound(workspaceId);
    throw error;
  }
  return (await findApiKey(db, { organizationId: null, workspaceId: null }, id)) as ApiKeyRow;
}

function insertedKey(id: string, made: NewApiKey): Sql {
  return sql`
    insert into api_keys (id, organization_id, workspace_id, listener_id, name, role, is_operator, prefix, hash, expires_at,
      expires_at_once_used, parent_id, member_id)
    values (${id}, ${made.organizationId}, ${made.workspaceId}, ${made.listenerId}, ${made.name}, ${made.role},
      ${made.isOperator ?? false}, ${made.prefix}, ${made.hash}, ${made.expiresAt ?? null},
      ${made.expiresAtOnceUsed ?? null}, ${made.parentId ?? null}, ${made.memberId ?? null})`;
}

/**
 * Returns a key, also an expired or revoked one: the caller checks that. Concurrent lookups share one statement, so that guessed
 * keys cannot keep the database busy.
 */
export const findApiKeyByPrefix = batched(async (db, prefixes: string[]): Promise<(ApiKeyRow | undefined)[]> => {
  const { rows } = await db.query<ApiKeyRow>(sql`
    select ${keyColumns} from api_keys k left join workspaces w on w.id = k.workspace_id
     where k.prefix = any(${prefixes}::text[])`);
  const byPrefix = new Map(rows.map((row) => [row.prefix, row]));
  return prefixes.map((prefix) => byPrefix.get(prefix));
});

export async function findApiKey(db: Db | Trx, reach: Reach, id: string): Promise<ApiKeyRow | undefined> {
  const { rows } = await db.query<ApiKeyRow>(sql`
    select ${keyColumns} from api_keys k left join workspaces w on w.id = k.workspace_id
     where k.id = ${id} and ${visible(reach)}`);
  return rows[0];
}

/**
 * Returns the key with this digest that no client has used; "used" for one that was used, revoked, or has expired; undefined when
 * there is none.
 */
export async function findUnusedKey(
  trx: Trx,
  { prefix, hash }: { prefix: string; hash: Buffer },
): Promise<ApiKeyRow | "used" | undefined> {
  const { rows } = await trx.query<ApiKeyRow & { is_unused: boolean }>(sql`
    select ${keyColumns}, k.last_used_at is null and k.revoked_at is null and k.expires_at > now() as is_unused
      from api_keys k left join workspaces w on w.id = k.workspace_id
     where k.prefix = ${prefix} and k.hash = ${hash}::bytea`);
  const [row] = rows;
  if (row === undefined) return undefined;
  const { is_unused: isUnused, ...key } = row;
  return isUnused ? key : "used";
}

/** Returns keys, newest first. */
export async function listApiKeys(
  db: Db,
  reach: Reach,
  filter: { organizationId: string | null; workspaceId: string | null; role: KeyRole | null; inactive: boolean },
  page: { limit: number; offset: number },
): Promise<ApiKeyRow[]> {
  const { rows } = await db.query<ApiKeyRow>(sql`
    select ${keyColumns} from api_keys k left join workspaces w on w.id = k.workspace_id
     where ${visible(reach)} and ${within(filter, columns)} and (${filter.role}::text is null or k.role = ${filter.role})
       and (${filter.inactive} or (k.revoked_at is null and (k.expires_at is null or k.expires_at > now())))
     order by k.created_at desc, k.id limit ${page.limit} offset ${page.offset}`);
  return rows;
}

const columns = { organization: "k.organization_id", workspace: "k.workspace_id" };

/** Condition: only operators see operators' keys, and the key of the built-in listener is visible to no caller. */
function visible(reach: Reach): Sql {
  return sql`${within(reach, columns)} and (${reach.organizationId}::uuid is null or not k.is_operator)
       and not exists (select 1 from listeners l where l.id = k.listener_id and l.builtin)`;
}

/**
 * Revokes a key at once, with the keys of command lines that it allowed. A key that was revoked before stays unchanged.
 * @returns false when there is no such key.
 * @throws ApiError 409 `lastAdminKey` when no other key could administer what this one does.
 */
export async function revokeApiKey(db: Db, reach: Reach, id: string, actor: string): Promise<boolean> {
  return db.transaction(async (trx) => {
    // The lock prevents two concurrent revocations from removing the last two admin keys. Recording uses waits meanwhile.
    await trx.query(sql`lock table api_keys in share row exclusive mode`);
    const key = await findApiKey(trx, reach, id);
    if (key === undefined || key.revoked_at !== null) return key !== undefined;
    if (key.role === "admin" && !(await hasSuccessor(trx, key, db.now()))) throw errors.lastAdminKey(scopeOf(key));
    const { organization_id: organizationId, workspace_id: workspaceId, name } = key;
    const subject = { organizationId, workspaceId: key.is_operator ? null : workspaceId, id, name };
    await trx.query(sql`
      with key as (update api_keys set revoked_at = now() where id = ${id})
      ${audited(subject, { actor, action: "api_key.revoke", details: { role: key.role, scope: scopeOf(key) } })}`);
    await trx.query(sql`
      update api_keys set revoked_at = now() where revoked_at is null and id in (${descendantsOf(id)})`);
    return true;
  });
}

/** Query for the ids of the keys that this key, and keys it allowed, allowed command lines to get. */
const descendantsOf = (id: string): Sql => sql`
  with recursive family (id) as (
    select k.id from api_keys k where k.parent_id = ${id}
    union select k.id from api_keys k join family f on k.parent_id = f.id
  ) select id from family`;

/** Revokes the keys that command lines of a member use. */
export async function revokeMemberKeys(trx: Trx, memberId: string): Promise<void> {
  await trx.query(sql`update api_keys set revoked_at = now() where member_id = ${memberId} and revoked_at is null`);
}

/** Returns whether another key, which does not end with this one, has all its rights, within its organization (for an operator's key: anywhere). */
async function hasSuccessor(trx: Trx, key: ApiKeyRow, now: Date): Promise<boolean> {
  if (key.expires_at !== null && key.expires_at <= now) return true;
  const { rows } = await trx.query(sql`
    select 1 from api_keys
     where id <> ${key.id} and id not in (${descendantsOf(key.id)}) and role = 'admin' and revoked_at is null and (expires_at is null or expires_at > now())
       and expires_at_once_used is null
       and (${key.is_operator} or organization_id = ${key.organization_id})
       and (is_operator or (not ${key.is_operator} and (workspace_id is null or workspace_id = ${key.workspace_id})))
     limit 1`);
  return rows.length > 0;
}

/** Makes a key an operator's key. Keys of the first versions reached one workspace, but the bootstrap key must reach all. */
export async function makeOperator(db: Db, key: ApiKeyRow): Promise<void> {
  if (key.is_operator) return;
  const { id, organization_id: organizationId, name } = key;
  const changes = { scope: { before: scopeOf(key), after: "installation" } };
  await db.query(sql`
    with key as (update api_keys set is_operator = true where id = ${id})
    ${audited({ organizationId, workspaceId: null, id, name }, { actor: "system", action: "api_key.patch", changes })}`);
}

/** Revokes all keys of a listener; a client that still uses one needs a new key. */
export async function revokeListenerKeys(db: Db | Trx, listenerId: string): Promise<void> {
  await db.query(sql`update api_keys set revoked_at = now() where listener_id = ${listenerId} and revoked_at is null`);
}

/**
 * Records that a key was used. Exact to a minute, so that a busy key's row is written once a minute and not per request. The first
 * use of a command line's key sets its final end.
 */
export async function touchApiKey(db: Db, id: string): Promise<void> {
  await db.query(sql`
    update api_keys set last_used_at = now(), expires_at = coalesce(expires_at_once_used, expires_at), expires_at_once_used = null
     where id = ${id} and (last_used_at is null or last_used_at < now() - interval '1 minute' or expires_at_once_used is not null)`);
}
