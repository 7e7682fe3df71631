import {
  boundedChanges,
  boundedSecretChanges,
  boundedValue,
  type Changes,
  type SecretChanges,
} from "../../domain/audit.ts";
import { type Sql, sql } from "../engine/sql.ts";

/** The content of an audit row: names of secrets only, and no keys. */
export interface AuditNote {
  /** The actor, as `key:<id>` or `member:<id>`; `system` for the server itself. */
  actor: string;
  /** `<object>.<verb>`, such as `deployment.patch`. */
  action: string;
  changes?: Changes;
  secrets?: SecretChanges | null;
  /** Further facts, such as the id of the new revision. */
  details?: Record<string, unknown>;
}

/** The object of a change that is not a deployment. */
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
 * CTE body that writes an audit row for each row of an earlier CTE (`source`, with `deployment_id` and `tenant_id`), so
 * that no change lacks its row. `name`: of a deployment that is created in the same statement.
 */
export function auditedDeployment(source: string, note: AuditNote, name: string | null = null): Sql {
  return sql`
      insert into audit_log (organization_id, tenant_id, actor, action, deployment_id, subject_id, subject_name, data)
      select w.organization_id, s.tenant_id, ${note.actor}, ${note.action}, s.deployment_id, s.deployment_id,
             coalesce(${name}, (select d.name from deployments d where d.id = s.deployment_id)), ${JSON.stringify(dataOf(note))}
        from ${sql.identifier(source)} s join workspaces w on w.id = s.tenant_id`;
}

/**
 * CTE body that writes audit rows whose content comes from the rows of `source`: the columns of `auditColumns` (`action`
 * null: no row) and `subject_name` (null: the deployment's name).
 */
export function auditedRows(source: string): Sql {
  return sql`
      insert into audit_log (organization_id, tenant_id, actor, action, deployment_id, subject_id, subject_name, data)
      select w.organization_id, s.tenant_id, s.actor, s.action, s.deployment_id, s.deployment_id,
             coalesce(s.subject_name, (select d.name from deployments d where d.id = s.deployment_id)), s.noted
        from ${sql.identifier(source)} s join workspaces w on w.id = s.tenant_id where s.action is not null`;
}

export const auditColumns = (note: AuditNote) => ({ actor: note.actor, action: note.action, noted: dataOf(note) });

/** Statement, or CTE body, that writes the audit row for any other object. */
export function audited(subject: AuditSubject, note: AuditNote): Sql {
  return sql`
      insert into audit_log (organization_id, tenant_id, actor, action, deployment_id, subject_id, subject_name, data)
      values (${subject.organizationId}, ${subject.workspaceId}, ${note.actor}, ${note.action},
        ${subject.deploymentId ?? null}, ${subject.id}, ${subject.name}, ${JSON.stringify(dataOf(note))})`;
}

function dataOf({ changes = {}, secrets = null, details = {} }: AuditNote): Record<string, unknown> {
  return {
    ...(Object.keys(changes).length > 0 && { changes: boundedChanges(changes) }),
    ...(secrets !== null && { secrets: boundedSecretChanges(secrets) }),
    ...(Object.keys(details).length > 0 && {
      details: Object.fromEntries(Object.entries(details).map(([name, value]) => [name, boundedValue(value)])),
    }),
  };
}
