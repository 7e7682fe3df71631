import type { BuildEnd } from "../../contract/listeners/build-order.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/** What a listener needs to build an image, besides the context. */
export interface BuildOrderSpec {
  tag: string;
  dockerfile: string;
  timeoutS: number;
  diskBytesMax: number;
}

export interface BuildOrderRow {
  id: string;
  revision_id: string;
  deployment_id: string;
  spec: BuildOrderSpec;
  context_path: string;
  expires_at: Date;
}

export interface NewBuildOrder {
  id: string;
  revisionId: string;
  listenerId: string;
  spec: BuildOrderSpec;
  /** File of the context, relative to the data directory. */
  contextPath: string;
  expiresAt: Date;
}

/** Orders a build from a listener. An earlier attempt at the same build is no longer wanted. */
export async function placeBuildOrder(db: Db, order: NewBuildOrder): Promise<void> {
  const { id, revisionId, listenerId, spec, contextPath, expiresAt } = order;
  await db.query(sql`
    insert into build_orders (id, revision_id, listener_id, spec, context_path, expires_at)
    values (${id}, ${revisionId}, ${listenerId}, ${JSON.stringify(spec)}::jsonb, ${contextPath}, ${expiresAt})
    on conflict (revision_id) do update
       set id = excluded.id, listener_id = excluded.listener_id, spec = excluded.spec, result = null,
           context_path = excluded.context_path, expires_at = excluded.expires_at, created_at = now()`);
  db.changes.wake();
}

/** Returns the builds that a listener shall run, oldest first. None is ordered while the workspace removes images of its repository. */
export async function listBuildOrders(db: Db, listenerId: string): Promise<BuildOrderRow[]> {
  const { rows } = await db.query<BuildOrderRow>(sql`
    select o.id, o.revision_id, r.deployment_id, o.spec, o.context_path, o.expires_at
      from build_orders o join revisions r on r.id = o.revision_id
     where o.listener_id = ${listenerId} and o.result is null and o.expires_at > now()
       and not exists (
         select from listeners l join image_removals i on i.repository = l.facts ->> 'image_registry'
           join listeners h on h.id = i.listener_id
          where l.id = o.listener_id and i.leased_until > now() and h.tenant_id is not distinct from l.tenant_id)
     order by o.created_at, o.id`);
  return rows;
}

/** Returns a build that has not ended; undefined when it is not wanted any more. */
export async function findBuildOrder(
  db: Db,
  id: string,
): Promise<(BuildOrderRow & { listener_id: string }) | undefined> {
  const { rows } = await db.query<BuildOrderRow & { listener_id: string }>(sql`
    select o.id, o.revision_id, r.deployment_id, o.spec, o.context_path, o.expires_at, o.listener_id
      from build_orders o join revisions r on r.id = o.revision_id
     where o.id = ${id} and o.result is null and o.expires_at > now()`);
  return rows[0];
}

/** Stores how a build ended. Only the first report counts. */
export async function endBuildOrder(db: Db, id: string, end: BuildEnd): Promise<void> {
  await db.query(sql`
    update build_orders set result = ${JSON.stringify(end)}::jsonb where id = ${id} and result is null`);
  db.changes.wake();
}

/** Returns how a build ended; null: it has not. undefined: there is no such build any more. */
export async function readBuildEnd(db: Db, id: string): Promise<BuildEnd | null | undefined> {
  const { rows } = await db.query<{ result: BuildEnd | null }>(sql`select result from build_orders where id = ${id}`);
  return rows[0]?.result;
}

/** Withdraws a build. Its listener stops it. */
export async function dropBuildOrder(db: Db, id: string): Promise<void> {
  await db.query(sql`delete from build_orders where id = ${id}`);
  db.changes.wake();
}

/** Returns the repository to which a listener pushes the images that it builds; null: it builds none. */
export async function readImageRegistry(db: Db, listenerId: string): Promise<string | null> {
  const { rows } = await db.query<{ registry: string | null }>(sql`
    select facts ->> 'image_registry' as registry from listeners where id = ${listenerId}`);
  return rows[0]?.registry ?? null;
}
