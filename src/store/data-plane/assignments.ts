import type { Assignment, Inventory, RevisionRun } from "../../contract/listeners/assignment.ts";
import { batched } from "../engine/batched.ts";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { bigint, pick, recordColumns } from "../engine/table.ts";
import { assignmentsTable } from "./tables.ts";

/** An assignment without the numbers that the store gives it. */
export interface NewAssignment {
  deployment_id: string;
  tenant_id: string;
  listener_id: string;
  slug: string;
  op: "apply" | "delete";
  target: RevisionRun | null;
  serving: RevisionRun | null;
  namespace?: string;
  idle_after_ms: number | null;
  /** Address at which its listener served agents when this was built; addresses in it are derived from that. */
  agents_url?: string | null;
  traceparent?: string;
}

/** An assignment that replaces the one of generation `seen` (0: none). */
export type ReplacedAssignment = NewAssignment & { seen: number };

const held = recordColumns(pick(assignmentsTable, "deployment_id", "generation"));
const replaced = recordColumns({
  ...pick(assignmentsTable, "deployment_id", "tenant_id", "listener_id", "op", "spec"),
  seen: bigint,
});

/**
 * Replaces the assignment of one deployment, but only the generation that the caller saw. A server that was frozen while
 * another one took its pass over therefore writes nothing, and cannot bring back a deleted assignment.
 * @returns false when another worker changed it first; the caller reads again and makes a new plan.
 */
export const writeAssignment: (db: Db | Trx, made: ReplacedAssignment) => Promise<boolean> = batched(
  async (db, all: ReplacedAssignment[]) => {
    const desired = all.map(({ seen, ...made }) => ({ ...assignmentColumns(made), seen }));
    const { rows } = await db.query<{ deployment_id: string }>(sql`
      with turn as (
        select id from listeners where id = any(${all.map(({ listener_id }) => listener_id)}::uuid[]) order by id for update
      ), held as (
        select deployment_id, generation from assignments
         where (select count(*) from turn) >= 0 -- lock listeners first, as every writer of assignments does
           and deployment_id = any(${all.map(({ deployment_id }) => deployment_id)}::uuid[])
         order by deployment_id for update
      ), desired as (
        select w.* from jsonb_to_recordset(${JSON.stringify(desired)}::jsonb)
            as w ${replaced}
          left join held h on h.deployment_id = w.deployment_id where w.seen = coalesce(h.generation, 0)
      ), ${assigned("desired")}
      select deployment_id from desired`);
    const written = new Set(rows.map(({ deployment_id }) => deployment_id));
    return all.map(({ deployment_id }) => written.has(deployment_id));
  },
);

/**
 * The part of a `with` list that writes the assignments of an earlier CTE (`source`, with the columns of
 * `assignmentColumns`). rv is raised under the listener's row lock, so commit order is rv order: a reader that has seen
 * rv N cannot miss a smaller one that commits later.
 */
export function assigned(source: string): Sql {
  const rows = sql.identifier(source);
  return sql`counted as (
      select listener_id, count(*) as count from ${rows} group by listener_id order by listener_id
    ), listener as (
      update listeners l set rv = l.rv + c.count from counted c where l.id = c.listener_id
      returning l.id, l.rv - c.count as rv_before
    ), written as (
      insert into assignments (deployment_id, tenant_id, listener_id, rv, generation, op, spec)
      select w.deployment_id, w.tenant_id, w.listener_id,
             l.rv_before + row_number() over (partition by w.listener_id order by w.deployment_id), 1, w.op, w.spec
        from ${rows} w join listener l on l.id = w.listener_id
      on conflict (deployment_id) do update
         set listener_id = excluded.listener_id, rv = excluded.rv, generation = assignments.generation + 1,
             op = excluded.op, spec = excluded.spec, updated_at = now()
    )`;
}

export function assignmentColumns({ deployment_id, tenant_id, listener_id, op, ...spec }: NewAssignment) {
  return { deployment_id, tenant_id, listener_id, op, spec };
}

/** Returns the assignments of one listener in order of change. `after` 0 returns all, as at the start of a session. */
export async function readDesired(
  db: Db,
  listenerId: string,
  page: { after: number; limit: number },
): Promise<{ items: Assignment[]; rv: number; more: boolean }> {
  const { rows } = await db.query<{
    deployment_id: string;
    tenant_id: string;
    rv: number;
    generation: number;
    op: "apply" | "delete";
    spec: Pick<Assignment, "slug" | "target" | "serving" | "namespace" | "idle_after_ms" | "traceparent"> & {
      agents_url?: string;
    };
  }>(sql`
    select deployment_id, tenant_id, rv, generation, op, spec from assignments
     where listener_id = ${listenerId} and rv > ${page.after} order by rv limit ${page.limit}`);
  const items = rows.map(({ spec: { agents_url: _, ...spec }, ...row }) => ({ ...row, ...spec }));
  return { items, rv: items.at(-1)?.rv ?? page.after, more: items.length === page.limit };
}

/**
 * Compares what a listener runs with its assignments, or one page of each. `unknown`: deployments that are not, or no longer, assigned to it.
 * `isAhead`: the listener knows a generation that does not exist yet, so the database was restored from an older copy.
 */
export async function compareInventory(
  db: Db,
  listenerId: string,
  { items, after, through }: Inventory,
): Promise<{ unknown: string[]; isBehind: boolean; isAhead: boolean }> {
  const { rows } = await db.query<{ unknown: string[]; isBehind: boolean; isAhead: boolean }>(sql`
    with held as (
      select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as h ${held}
    ), own as (select deployment_id, generation, op from assignments
       where listener_id = ${listenerId} and (${after ?? null}::uuid is null or deployment_id > ${after ?? null}::uuid)
         and (${through ?? null}::uuid is null or deployment_id <= ${through ?? null}::uuid))
    select coalesce((select jsonb_agg(h.deployment_id) from held h
                      where not exists (select from own o where o.deployment_id = h.deployment_id)), '[]') as unknown,
           exists (select from own o left join held h on h.deployment_id = o.deployment_id
                    where case when h.deployment_id is null then o.op = 'apply' else h.generation < o.generation end)
             as "isBehind",
           exists (select from own o join held h on h.deployment_id = o.deployment_id where h.generation > o.generation)
             as "isAhead"`);
  return rows[0] as { unknown: string[]; isBehind: boolean; isAhead: boolean };
}
