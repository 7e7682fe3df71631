import { sql } from "kysely";
import type { Db } from "./database.ts";

/** Listeners of a workspace as a deployment chooses among them; the built-in one is not one of them. */
export async function listListenerPlaces(
  db: Db,
  tenantId: string,
): Promise<{ id: string; k8sNamespaces: string[] | null }[]> {
  const { rows } = await sql<{ id: string; namespaces: string[] | null }>`
    select id, compute_config -> 'k8s_namespaces' as namespaces from listeners
     where tenant_id = ${tenantId} and not builtin order by created_at, id`.execute(db.kysely);
  return rows.map(({ id, namespaces }) => ({ id, k8sNamespaces: Array.isArray(namespaces) ? namespaces : null }));
}
