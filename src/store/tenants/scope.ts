import { type Sql, sql } from "../engine/sql.ts";

/** The part of the installation that a key can access; null: no limit. A workspace always comes with its organization. */
export interface Reach {
  organizationId: string | null;
  workspaceId: string | null;
}

/** Condition on two columns. Rows outside of the reach are treated as if they did not exist. */
export function within(reach: Reach, columns: { organization: string; workspace: string }): Sql {
  const { organizationId, workspaceId } = reach;
  return sql`(${organizationId}::uuid is null or ${sql.identifier(columns.organization)} = ${organizationId})
       and (${workspaceId}::uuid is null or ${sql.identifier(columns.workspace)} = ${workspaceId})`;
}
