import { randomUUID } from "node:crypto";
import { errors } from "../../contract/error.ts";
import type { ListenerFacts } from "../../contract/listeners/assignment.ts";
import type { ListenerLogLevel } from "../../contract/listeners/listener.ts";
import { batched } from "../engine/batched.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { enqueued } from "../queue/enqueue.ts";

export interface ListenerSession {
  sessionId: string;
  listenerId: string;
  epoch: number;
}

/** Returns the built-in data plane of this installation. It is created once, serves every workspace, and is not listed in the public API. */
export async function ensureBuiltinListener(db: Db, computeType: string): Promise<string> {
  const { rows } = await db.query<{ id: string }>(sql`
    insert into listeners (id, builtin, compute_type, compute_id)
    values (${randomUUID()}, true, ${computeType}, 'builtin')
    on conflict (builtin) where builtin do update set compute_type = excluded.compute_type, updated_at = now()
    returning id`);
  return (rows[0] as { id: string }).id;
}

/**
 * Opens a session unless another instance holds a live one. The new epoch invalidates every older session. The listener's
 * deployments are enqueued when it now serves agents at another address.
 * @throws ApiError 409 `listenerBusy` while another instance's lease runs; `listenerDraining`.
 */
export async function openListenerSession(
  db: Db,
  listenerId: string,
  request: { instanceId: string; version: string; facts?: ListenerFacts; leaseMs: number },
): Promise<ListenerSession> {
  const { rows } = await db.query<{ session_id: string; epoch: number }>(sql`
    with before as (
      select id, facts ->> 'agents_url' as agents_url from listeners where id = ${listenerId} for update
    ), opened as (
    update listeners l
       set epoch = epoch + 1, session_id = ${randomUUID()}, instance_id = ${request.instanceId}, version = ${request.version},
           facts = ${JSON.stringify(request.facts ?? {})}::jsonb,
           lease_until = now() + ${request.leaseMs} * interval '1 millisecond', last_seen_at = now(), updated_at = now()
      from before b where l.id = b.id and not l.drain
       and (l.lease_until is null or l.lease_until < now() or l.instance_id = ${request.instanceId})
    returning l.id, l.session_id, l.epoch, l.facts ->> 'agents_url' is distinct from b.agents_url as has_moved
    ), moved as (
      select d.id as deployment_id from opened o join deployments d on d.listener_id = o.id where o.has_moved
    ), ${enqueued("moved")}
    select session_id, epoch from opened`);
  const row = rows[0];
  if (row === undefined) {
    const { drain } = await readListenerOrders(db, listenerId);
    throw drain ? errors.listenerDraining() : errors.listenerBusy();
  }
  db.reached("listener session opened");
  db.changes.wake();
  return { sessionId: row.session_id, listenerId, epoch: row.epoch };
}

/**
 * Renews the session's lease.
 * @returns the newest resource version of the listener's assignments.
 * @throws ApiError 409 `staleEpoch` when a newer session was opened.
 */
export async function renewListenerSession(
  db: Db,
  session: { listenerId: string; epoch: number },
  leaseMs: number,
): Promise<number> {
  const { rows } = await db.query<{ rv: number }>(sql`
    update listeners set lease_until = now() + ${leaseMs} * interval '1 millisecond', last_seen_at = now()
     where id = ${session.listenerId} and epoch = ${session.epoch} returning rv`);
  if (rows[0] === undefined) throw errors.staleEpoch();
  return rows[0].rv;
}

/** @throws ApiError 409 `staleEpoch` unless `epoch` is the newest of this listener. */
export async function checkEpoch(db: Db, session: { listenerId: string; epoch: number }): Promise<void> {
  if ((await newestEpoch(db, session.listenerId)) !== session.epoch) throw errors.staleEpoch();
}

const newestEpoch = batched(async (db, listenerIds: string[]): Promise<(number | undefined)[]> => {
  const { rows } = await db.query<{ id: string; epoch: number }>(sql`
    select id, epoch from listeners where id = any(${[...new Set(listenerIds)]}::uuid[])`);
  return listenerIds.map((listenerId) => rows.find(({ id }) => id === listenerId)?.epoch);
});

/** Ends a session at a clean stop, so that the next one need not wait for the lease to expire. */
export async function closeListenerSession(db: Db, session: { listenerId: string; epoch: number }): Promise<void> {
  await db.query(
    sql`update listeners set lease_until = null where id = ${session.listenerId} and epoch = ${session.epoch}`,
  );
}

/** Returns the orders for a listener's heartbeat. `rv`: newest resource version of its assignments. */
export async function readListenerOrders(
  db: Db,
  listenerId: string,
): Promise<{ rv: number; drain: boolean; log_level: ListenerLogLevel | null }> {
  const { rows } = await db.query<{ rv: number; drain: boolean; log_level: ListenerLogLevel | null }>(sql`
    select rv, drain, log_level from listeners where id = ${listenerId}`);
  return rows[0] ?? { rv: 0, drain: false, log_level: null };
}

/** Returns what a listener of a workspace last reported that it offers; nothing for an unknown or foreign one. */
export async function readListenerCapabilities(db: Db | Trx, tenantId: string, id: string): Promise<string[]> {
  const { rows } = await db.query<{ capabilities: string[] | null }>(sql`
    select facts -> 'capabilities' as capabilities from listeners where id = ${id} and tenant_id = ${tenantId}`);
  return rows[0]?.capabilities ?? [];
}

/** Returns the newest resource version of a listener's assignments. */
export async function readListenerVersion(db: Db, listenerId: string): Promise<number> {
  const { rows } = await db.query<{ rv: number }>(sql`select rv from listeners where id = ${listenerId}`);
  return rows[0]?.rv ?? 0;
}

/** Returns the address at which a listener serves agents, with `{slug}` for the deployment; null: it serves none. */
export const readAgentsUrl = batched(async (db, listenerIds: string[]): Promise<(string | null)[]> => {
  const { rows } = await db.query<{ id: string; agents_url: string | null }>(sql`
    select id, facts ->> 'agents_url' as agents_url from listeners
     where id = any(${[...new Set(listenerIds)]}::uuid[])`);
  return listenerIds.map((listenerId) => rows.find(({ id }) => id === listenerId)?.agents_url ?? null);
});

/** Returns the newest resource version of the assignments of each listener. */
export async function readListenerVersions(db: Db, listenerIds: string[]): Promise<Map<string, number>> {
  const { rows } = await db.query<{ id: string; rv: number }>(sql`
    select id, rv from listeners where id = any(${listenerIds}::uuid[])`);
  return new Map(rows.map(({ id, rv }) => [id, rv]));
}
