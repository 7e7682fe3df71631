import type { TunnelOrder } from "../../contract/listeners/tunnel.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

export interface TunnelRow {
  id: string;
  listener_id: string;
  wanted: Omit<TunnelOrder, "tunnel_id">;
}

/** Asks a listener for a connection. Rows of servers that crashed are removed with the next one. */
export async function placeTunnel(
  db: Db,
  { id, listener_id, wanted, replicaUrl, forMs }: TunnelRow & { replicaUrl: string; forMs: number },
): Promise<void> {
  await db.query(sql`
    with expired as (delete from tunnels where expires_at < now())
    insert into tunnels (id, listener_id, wanted, replica_url, expires_at)
    values (${id}, ${listener_id}, ${JSON.stringify(wanted)}::jsonb, ${replicaUrl},
            now() + ${forMs} * interval '1 millisecond')`);
  db.changes.wakeWatchers();
}

/** Returns the connections that these listeners shall open. */
export async function listTunnels(db: Db, listenerIds: string[]): Promise<TunnelRow[]> {
  const { rows } = await db.query<TunnelRow>(sql`
    select id, listener_id, wanted from tunnels
     where listener_id = any(${listenerIds}::uuid[]) and expires_at > now()`);
  return rows;
}

/** Returns the address of the replica that waits for a connection of this listener; undefined: none does. */
export async function findTunnelReplica(
  db: Db,
  { id, listenerId }: { id: string; listenerId: string },
): Promise<string | undefined> {
  const { rows } = await db.query<{ replica_url: string }>(sql`
    select replica_url from tunnels where id = ${id} and listener_id = ${listenerId} and expires_at > now()`);
  return rows[0]?.replica_url;
}

export async function removeTunnel(db: Db, id: string): Promise<void> {
  await db.query(sql`delete from tunnels where id = ${id}`);
}
