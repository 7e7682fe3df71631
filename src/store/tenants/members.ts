import { randomUUID } from "node:crypto";
import type { MemberRole } from "../../contract/administration/member.ts";
import { errors } from "../../contract/error.ts";
import { changesBetween } from "../../domain/audit.ts";
import { type Db, isForeignKeyViolation, isUniqueViolation, type Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { revokeMemberKeys } from "./api-keys.ts";
import { audited } from "./audit.ts";
import { type Reach, within } from "./scope.ts";
import { membersTable } from "./tables.ts";

const memberFields = pick(
  membersTable,
  "id",
  "organization_id",
  "workspace_id",
  "email",
  "name",
  "role",
  "created_at",
  "updated_at",
);

/** A person in one workspace, or (with null) in all workspaces of an organization. */
export type MemberRow = RowOf<typeof memberFields>;

const columns = selectList(memberFields, "m");
const owners = { organization: "m.organization_id", workspace: "m.workspace_id" };

/** Writes a member. @throws ApiError 409 when the address is already a member there, 404 when the workspace or organization was deleted meanwhile. */
export async function createMember(
  db: Db,
  made: Pick<MemberRow, "organization_id" | "workspace_id" | "email" | "name" | "role">,
  actor: string,
): Promise<MemberRow> {
  const id = randomUUID();
  const { organization_id, workspace_id, email, name, role } = made;
  const note = { actor, action: "member.create", details: { role } };
  try {
    await db.query(sql`
      with member as (
        insert into members (id, organization_id, workspace_id, email, name, role)
        values (${id}, ${organization_id}, ${workspace_id}, ${email}, ${name}, ${role})
      ) ${audited(subjectOf({ id, ...made }), note)}`);
  } catch (error) {
    if (isUniqueViolation(error)) throw errors.memberTaken(email);
    if (!isForeignKeyViolation(error)) throw error;
    throw workspace_id === null ? errors.organizationNotFound(organization_id) : errors.workspaceNotFound(workspace_id);
  }
  return (await findMember(db, { organizationId: organization_id, workspaceId: null }, id)) as MemberRow;
}

export async function findMember(db: Db | Trx, reach: Reach, id: string): Promise<MemberRow | undefined> {
  const { rows } = await db.query<MemberRow>(sql`
    select ${columns} from members m where m.id = ${id} and ${within(reach, owners)}`);
  return rows[0];
}

/** Returns members by address. */
export async function listMembers(
  db: Db,
  reach: Reach,
  filter: Reach & { email: string | null },
  page: { limit: number; offset: number },
): Promise<MemberRow[]> {
  const { rows } = await db.query<MemberRow>(sql`
    select ${columns} from members m
     where ${within(reach, owners)} and ${within(filter, owners)}
       and (${filter.email}::text is null or m.email = ${filter.email})
     order by m.email, m.id limit ${page.limit} offset ${page.offset}`);
  return rows;
}

/** Changes a member. A changed role ends the keys of the member's command lines. @returns undefined when there is no such member. */
export async function changeMember(
  db: Db,
  reach: Reach,
  id: string,
  wanted: { name?: string; role?: MemberRole; actor: string },
): Promise<MemberRow | undefined> {
  return db.transaction(async (trx) => {
    await trx.query(sql`select 1 from members where id = ${id} for update`);
    const row = await findMember(trx, reach, id);
    if (row === undefined) return undefined;
    const after = { name: wanted.name ?? row.name, role: wanted.role ?? row.role };
    const changes = changesBetween({ name: row.name, role: row.role }, after);
    if (Object.keys(changes).length === 0) return row;
    await trx.query(sql`
      with member as (
        update members set name = ${after.name}, role = ${after.role}, updated_at = now() where id = ${id}
      ) ${audited(subjectOf(row), { actor: wanted.actor, action: "member.patch", changes })}`);
    if (after.role !== row.role) await revokeMemberKeys(trx, id);
    return findMember(trx, reach, id);
  });
}

/** Deletes a member, which ends the keys of the member's command lines. @returns false when there is no such member. */
export async function deleteMember(db: Db, reach: Reach, id: string, actor: string): Promise<boolean> {
  return db.transaction(async (trx) => {
    await trx.query(sql`select 1 from members where id = ${id} for update`);
    const row = await findMember(trx, reach, id);
    if (row === undefined) return false;
    await trx.query(sql`
      with member as (delete from members where id = ${id})
      ${audited(subjectOf(row), { actor, action: "member.delete", details: { role: row.role } })}`);
    await revokeMemberKeys(trx, id);
    return true;
  });
}

const subjectOf = (member: Pick<MemberRow, "id" | "organization_id" | "workspace_id" | "email">) => ({
  organizationId: member.organization_id,
  workspaceId: member.workspace_id,
  id: member.id,
  name: member.email,
});
