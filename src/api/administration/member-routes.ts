import type { Administrator } from "../../auth/principal.ts";
import type { CreateMember, Member } from "../../contract/administration/member.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { mailAddress } from "../../domain/mail-address.ts";
import type { Db } from "../../store/engine/database.ts";
import {
  changeMember,
  createMember,
  deleteMember,
  findMember,
  listMembers,
  type MemberRow,
} from "../../store/tenants/members.ts";
import { type Api, adminRoute } from "../http/route.ts";
import { withoutNulls } from "../validation/without-nulls.ts";
import { readOrganization, readWorkspace } from "./tenant-routes.ts";

/** Adds the routes of members: the people who may sign in, and their roles. */
export function addMemberRoutes(api: Api): void {
  const { db } = api.deps;

  adminRoute(api, operations.listMembers, async ({ principal, query }) => {
    const filter = {
      organizationId: query.organization_id ?? null,
      workspaceId: query.workspace_id ?? null,
      email: query.email ? mailAddress(query.email) : null,
    };
    const rows = await listMembers(db, principal.reach, filter, query);
    return { resources: rows.map(memberOf), offset: query.offset + rows.length };
  });

  adminRoute(api, operations.createMember, async ({ principal, body }) => {
    const owner = await ownerOf(db, principal, body);
    const { email, name = null, role } = body;
    const made = await createMember(db, { ...owner, email: mailAddress(email), name, role }, principal.actor);
    db.afterCommit(api.keyring.forget);
    return memberOf(made);
  });

  adminRoute(api, operations.getMember, async ({ principal, params }) => {
    const row = await findMember(db, principal.reach, params.member_id);
    if (row === undefined) throw errors.memberNotFound(params.member_id);
    return memberOf(row);
  });

  adminRoute(api, operations.patchMember, async ({ principal, params, body }) => {
    const { reach, actor } = principal;
    const row = await changeMember(db, reach, params.member_id, { ...withoutNulls(body), actor });
    if (row === undefined) throw errors.memberNotFound(params.member_id);
    db.afterCommit(api.keyring.forget);
    return memberOf(row);
  });

  adminRoute(api, operations.deleteMember, async ({ principal, params }) => {
    const isDeleted = await deleteMember(db, principal.reach, params.member_id, principal.actor);
    if (!isDeleted) throw errors.memberNotFound(params.member_id);
    db.afterCommit(api.keyring.forget);
  });
}

/**
 * Returns where a new member belongs: a workspace, unless the body names an organization. @throws ApiError 400, 403,
 * 404 as for keys.
 */
async function ownerOf(db: Db, principal: Administrator, body: CreateMember) {
  if (typeof body.organization_id === "string") {
    if (typeof body.workspace_id === "string") {
      throw errors.invalidSetting("organization_id", "cannot be combined with 'workspace_id'.");
    }
    if (principal.scope === "workspace") throw errors.scopeMissing("organization");
    const { id } = await readOrganization(db, principal, body.organization_id);
    return { organization_id: id, workspace_id: null };
  }
  const named = body.workspace_id ?? principal.workspaceId;
  if (named === null) throw errors.invalidSetting("workspace_id", "or 'organization_id' is required.");
  const { id, organization_id } = await readWorkspace(db, principal, named);
  return { organization_id, workspace_id: id };
}

const memberOf = ({ created_at, updated_at, ...row }: MemberRow): Member => ({
  ...row,
  created_at: created_at.toISOString(),
  updated_at: updated_at.toISOString(),
});
