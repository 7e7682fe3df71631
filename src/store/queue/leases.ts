import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/**
 * A right that one server holds at a time. A row instead of an advisory lock, because advisory locks have no effect in
 * the embedded database.
 */
export interface LeaseKey {
  name: string;
  /** Unique for each start of a server. */
  owner: string;
}

/** Takes a lease that is free, expired, or already this owner's. @returns whether this owner holds it now. */
export async function acquireLease(db: Db, lease: LeaseKey & { leaseMs: number }): Promise<boolean> {
  const { rows } = await db.query(sql`
    insert into leases (name, owner, lease_until)
    values (${lease.name}, ${lease.owner}, now() + ${lease.leaseMs} * interval '1 millisecond')
    on conflict (name) do update set owner = excluded.owner, lease_until = excluded.lease_until
     where leases.owner = excluded.owner or leases.lease_until < now()
    returning 1`);
  return rows.length > 0;
}

/** Extends a lease. @returns false when another owner has taken it: stop the work that it protects. */
export async function renewLease(db: Db, lease: LeaseKey & { leaseMs: number }): Promise<boolean> {
  const { rows } = await db.query(sql`
    update leases set lease_until = now() + ${lease.leaseMs} * interval '1 millisecond'
     where name = ${lease.name} and owner = ${lease.owner} returning 1`);
  return rows.length > 0;
}

/** Releases a lease, so that the next owner need not wait for its end. Does nothing if this owner does not hold it. */
export async function releaseLease(db: Db, lease: LeaseKey): Promise<void> {
  await db.query(sql`delete from leases where name = ${lease.name} and owner = ${lease.owner}`);
}
