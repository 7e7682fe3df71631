import { type RawBuilder, sql } from "kysely";

/** What a key administers; null: no limit. A workspace is never without its organization. */
export interface Reach {
  organizationId: string | null;
  workspaceId: string | null;
}

/** Condition on two columns. What lies outside is as if it did not exist. */
export function within(reach: Reach, columns: { organization: string; workspace: string }): RawBuilder<boolean> {
  const { organizationId, workspaceId } = reach;
  return sql<boolean>`(${organizationId}::uuid is null or ${sql.ref(columns.organization)} = ${organizationId})
       and (${workspaceId}::uuid is null or ${sql.ref(columns.workspace)} = ${workspaceId})`;
}
