import type { AuditEntry } from "../../contract/administration/audit.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { type AuditRow, readAuditPage } from "../../store/tenants/audit-list.ts";
import { type Api, adminRoute } from "../http/route.ts";

/** Adds the route that lists the audit log. */
export function addAuditRoutes(api: Api): void {
  const { db } = api.deps;

  adminRoute(api, operations.listAuditLog, async ({ principal, query }) => {
    const filter = {
      organizationId: query.organization_id ?? null,
      workspaceId: query.workspace_id ?? null,
      deploymentId: query.deployment_id ?? null,
      actor: query.actor || null,
      action: query.action || null,
      words: (query.text ?? "").toLowerCase().split(/\s+/).filter(Boolean),
      since: timeOf(query.since),
      until: timeOf(query.until),
    };
    const page = { size: query.page_size, beforeId: idOf(query.cursor) };
    const { rows, next } = await readAuditPage(db, principal.reach, filter, page);
    return { items: rows.map(auditEntryOf), next_cursor: next === null ? null : String(next) };
  });
}

const timeOf = (text: string | undefined) => (text === undefined ? null : new Date(text));

function idOf(cursor: string | undefined): number | null {
  if (!cursor) return null;
  // Ids stay far below 2^53, so no response ever contained a longer number.
  if (!/^\d{1,15}$/.test(cursor)) throw errors.invalidSetting("cursor", "must be the next_cursor of an earlier page.");
  return Number(cursor);
}

function auditEntryOf(row: AuditRow): AuditEntry {
  const { changes = {}, secrets = null, details = {} } = row.data;
  return {
    id: String(row.id),
    created_at: row.created_at.toISOString(),
    actor: row.actor,
    actor_name: row.actor_name,
    action: row.action,
    organization_id: row.organization_id,
    workspace_id: row.tenant_id,
    deployment_id: row.deployment_id,
    subject_id: row.subject_id,
    subject_name: row.subject_name,
    changes,
    secrets,
    details,
  };
}
