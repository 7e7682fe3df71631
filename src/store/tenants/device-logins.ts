import { randomUUID } from "node:crypto";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { type ApiKeyRow, createApiKey, findUnusedKey, type KeyRole, type NewApiKey } from "./api-keys.ts";
import { audited } from "./audit.ts";
import { deviceLoginsTable } from "./tables.ts";

/** Command lines that may wait at the same time. Few codes are valid then, so a guess hits none. */
const waitingMax = 2_000;

const fields = pick(deviceLoginsTable, "id", "user_code", "client_name", "address", "created_at", "expires_at");

export type DeviceLoginRow = RowOf<typeof fields>;

/** Stores a login, and deletes expired ones. @returns whether there was space. */
export async function insertDeviceLogin(
  db: Db,
  made: { deviceHash: Buffer; userCode: string; clientName: string; address: string; lifeMs: number },
): Promise<boolean> {
  const { deviceHash, userCode, clientName, address, lifeMs } = made;
  const { rows } = await db.query(sql`
    with over as (delete from device_logins where expires_at <= now())
    insert into device_logins (id, device_hash, user_code, client_name, address, expires_at)
    select ${randomUUID()}::uuid, ${deviceHash}::bytea, ${userCode}::text, ${clientName}::text, ${address}::text,
           now() + ${lifeMs} * interval '1 millisecond'
     where (select count(*) from device_logins where status = 'pending' and expires_at > now()) < ${waitingMax}
    returning 1`);
  return rows.length > 0;
}

/** Returns a login that waits for a decision. */
export async function findDeviceLogin(db: Db, userCode: string): Promise<DeviceLoginRow | undefined> {
  const { rows } = await db.query<DeviceLoginRow>(sql`
    select ${selectList(fields, "d")} from device_logins d
     where d.user_code = ${userCode} and d.status = 'pending' and d.expires_at > now()`);
  return rows[0];
}

/** Who allows a command line, and the key that it gets. */
export interface Allowed extends Required<Pick<NewApiKey, "organizationId" | "workspaceId" | "role" | "isOperator">> {
  /** Key of the person, or null for a member. */
  parentId: string | null;
  memberId: string | null;
  expiresAt: Date;
}

/** Records a decision with an audit row. @returns false when another decision came first, or the login expired. */
export async function decideDeviceLogin(
  db: Db,
  { id, client_name: name, address }: DeviceLoginRow,
  allowed: Allowed | null,
  by: { actor: string; organizationId: string; workspaceId: string | null },
): Promise<boolean> {
  const { actor, organizationId, workspaceId } = by;
  const action = allowed === null ? "device_login.refuse" : "device_login.allow";
  const note = { actor, action, details: { address, ...(allowed !== null && { role: allowed.role }) } };
  return db.transaction(async (trx) => {
    const { rowCount } = await trx.query(sql`
      update device_logins
         set status = ${allowed === null ? "refused" : "allowed"}, actor = ${actor},
             parent_id = ${allowed?.parentId ?? null}, member_id = ${allowed?.memberId ?? null},
             organization_id = ${allowed?.organizationId ?? null}, workspace_id = ${allowed?.workspaceId ?? null},
             role = ${allowed?.role ?? null}, is_operator = ${allowed?.isOperator ?? null},
             key_expires_at = ${allowed?.expiresAt ?? null}
       where id = ${id} and status = 'pending' and expires_at > now()`);
    if (rowCount !== 1) return false;
    await trx.query(audited({ organizationId, workspaceId, id, name }, note));
    return true;
  });
}

type Finished = { status: "pending" | "refused" } | { status: "allowed"; key: ApiKeyRow };

/** A decided login. If it is allowed, the other fields describe its key. */
interface DecidedRow {
  status: "allowed" | "refused";
  client_name: string;
  actor: string;
  parent_id: string | null;
  member_id: string | null;
  organization_id: string;
  workspace_id: string | null;
  role: KeyRole;
  is_operator: boolean;
  key_expires_at: Date;
  expires_at: Date;
}

/**
 * Returns the key of a decided login: the same one until the command line uses it, because an answer may be lost. The first call
 * writes the key, if a person allowed it and still has the role. A key that is not used before the login expires ends with it.
 * @returns undefined when there is no such login, it has expired, or its key was used or revoked.
 */
export async function finishDeviceLogin(
  db: Db,
  deviceHash: Buffer,
  minted: { prefix: string; hash: Buffer },
): Promise<Finished | undefined> {
  const { rows } = await db.query<{ status: string }>(sql`
    select status from device_logins where device_hash = ${deviceHash} and expires_at > now()`);
  const [found] = rows;
  if (found === undefined || found.status === "pending") return found && { status: "pending" };
  return db.transaction(async (trx) => {
    const { rows: decided } = await trx.query<DecidedRow>(sql`
      select status, client_name, actor, parent_id, member_id, organization_id, workspace_id, role, is_operator,
             key_expires_at, expires_at
        from device_logins where device_hash = ${deviceHash} and expires_at > now() for update`);
    const [login] = decided;
    if (login === undefined) return undefined;
    if (login.status === "refused") return { status: "refused" };
    const known = await findUnusedKey(trx, minted);
    if (known === "used") return undefined;
    if (known !== undefined) return { status: "allowed", key: known };
    if (!(await isStillAllowed(trx, login))) return { status: "refused" };
    const { expires_at: unusedEndsAt, key_expires_at: endsAt } = login;
    const made: NewApiKey = {
      ...minted,
      organizationId: login.organization_id,
      workspaceId: login.workspace_id,
      listenerId: null,
      name: login.client_name,
      role: login.role,
      isOperator: login.is_operator,
      expiresAt: unusedEndsAt < endsAt ? unusedEndsAt : endsAt,
      expiresAtOnceUsed: endsAt,
      parentId: login.parent_id,
      memberId: login.member_id,
    };
    return { status: "allowed", key: await createApiKey(trx, made, login.actor) };
  });
}

/** Locks what the key ends with, so that a revocation at the same moment waits and then finds the new key. */
async function isStillAllowed(trx: Trx, { parent_id, member_id, role }: DecidedRow): Promise<boolean> {
  // The lock that inserting a key takes. A revocation takes its own on the table before it locks a row.
  await trx.query(sql`lock table api_keys in row exclusive mode`);
  if (member_id !== null) {
    const { rows } = await trx.query(sql`select 1 from members where id = ${member_id} and role = ${role} for share`);
    if (rows.length === 0) return false;
  }
  if (parent_id === null) return true;
  const { rows } = await trx.query(sql`
    select 1 from api_keys
     where id = ${parent_id} and revoked_at is null and (expires_at is null or expires_at > now()) for share`);
  return rows.length > 0;
}
