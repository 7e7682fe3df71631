import { type RawBuilder, sql } from "kysely";
import type { Changes, SecretChanges } from "../../domain/audit.ts";

/** What one row of the audit log says. Secrets by name alone, keys never. */
export interface AuditNote {
  /** Who did it, as `key:<id>` or `member:<id>`; `system` for the server itself. */
  actor: string;
  /** `<what>.<verb>`, such as `deployment.patch`. */
  action: string;
  changes?: Changes;
  secrets?: SecretChanges | null;
  /** Other facts, such as the id of the revision that was made. */
  details?: Record<string, unknown>;
}

/** What was changed, for things that are no deployments. */
export interface AuditSubject {
  organizationId: string;
  /** null: it belongs to the organization itself. */
  workspaceId: string | null;
  /** The deployment it belongs to, if any. */
  deploymentId?: string | null;
  id: string;
  name: string | null;
}

/**
 * CTE body that writes one row for each row of an earlier one (`source`, with `deployment_id` and `tenant_id`), so that
 * a change is never without its row. `name`: of a deployment that is made in the same statement.
 */
export function auditedDeployment(source: string, note: AuditNote, name: string | null = null): RawBuilder<unknown> {
  return sql`
      insert into audit_log (organization_id, tenant_id, actor, action, deployment_id, subject_id, subject_name, data)
      select w.organization_id, s.tenant_id, ${note.actor}, ${note.action}, s.deployment_id, s.deployment_id,
             coalesce(${name}, (select d.name from deployments d where d.id = s.deployment_id)), ${JSON.stringify(dataOf(note))}
        from ${sql.table(source)} s join workspaces w on w.id = s.tenant_id`;
}

/**
 * The same where each row of `source` says itself what to note, in the columns of `auditColumns` (`action` null: nothing)
 * and `subject_name` (null: the deployment's).
 */
export function auditedRows(source: string): RawBuilder<unknown> {
  return sql`
      insert into audit_log (organization_id, tenant_id, actor, action, deployment_id, subject_id, subject_name, data)
      select w.organization_id, s.tenant_id, s.actor, s.action, s.deployment_id, s.deployment_id,
             coalesce(s.subject_name, (select d.name from deployments d where d.id = s.deployment_id)), s.noted
        from ${sql.table(source)} s join workspaces w on w.id = s.tenant_id where s.action is not null`;
}

export const auditColumns = (note: AuditNote) => ({ actor: note.actor, action: note.action, noted: dataOf(note) });

/** Statement, or CTE body, that writes the row of a change to anything else. */
export function audited(subject: AuditSubject, note: AuditNote): RawBuilder<unknown> {
  return sql`
      insert into audit_log (organization_id, tenant_id, actor, action, deployment_id, subject_id, subject_name, data)
      values (${subject.organizationId}, ${subject.workspaceId}, ${note.actor}, ${note.action},
        ${subject.deploymentId ?? null}, ${subject.id}, ${subject.name}, ${JSON.stringify(dataOf(note))})`;
}

function dataOf({ changes = {}, secrets = null, details = {} }: AuditNote): Record<string, unknown> {
  return {
    ...(Object.keys(changes).length > 0 && { changes }),
    ...(secrets !== null && { secrets }),
    ...(Object.keys(details).length > 0 && { details }),
  };
}
