import { sql } from "kysely";
import type { Assignment, RevisionRun } from "../contract/assignment.ts";
import type { Db, Trx } from "./database.ts";

/** An assignment without what the store numbers. */
export interface NewAssignment {
  deployment_id: string;
  tenant_id: string;
  listener_id: string;
  slug: string;
  op: "apply" | "delete";
  target: RevisionRun | null;
  serving: RevisionRun | null;
  idle_after_ms: number | null;
}

/**
 * Replaces what a listener should run for one deployment. rv is raised under the listener's row lock, so commit order is
 * rv order and a reader who has seen rv N can never miss an earlier one that commits late.
 */
export async function writeAssignment(db: Db | Trx, made: NewAssignment): Promise<void> {
  const { deployment_id, tenant_id, listener_id, op, ...spec } = made;
  await sql`
    with listener as (update listeners set rv = rv + 1 where id = ${listener_id} returning id, rv)
    insert into assignments (deployment_id, tenant_id, listener_id, rv, generation, op, spec)
    select ${deployment_id}, ${tenant_id}, id, rv, 1, ${op}, ${JSON.stringify(spec)}::jsonb from listener
    on conflict (deployment_id) do update
       set rv = excluded.rv, generation = assignments.generation + 1, op = excluded.op, spec = excluded.spec,
           updated_at = now()`.execute(db.kysely);
}

/** What one listener should run, in order of change. `after` 0: everything, which is how a session begins. */
export async function readDesired(
  db: Db,
  listenerId: string,
  page: { after: number; limit: number },
): Promise<{ items: Assignment[]; rv: number; more: boolean }> {
  const { rows } = await sql<{
    deployment_id: string;
    tenant_id: string;
    rv: number;
    generation: number;
    op: "apply" | "delete";
    spec: Pick<Assignment, "slug" | "target" | "serving" | "idle_after_ms">;
  }>`
    select deployment_id, tenant_id, rv, generation, op, spec from assignments
     where listener_id = ${listenerId} and rv > ${page.after} order by rv limit ${page.limit}`.execute(db.kysely);
  const items = rows.map(({ spec, ...row }) => ({ ...row, ...spec }));
  return { items, rv: items.at(-1)?.rv ?? page.after, more: items.length === page.limit };
}
