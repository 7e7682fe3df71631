import { sql } from "kysely";
import type { Db } from "../engine/database.ts";

/** A right that one server has at a time. Rows, not advisory locks: those mean nothing in the embedded database. */
export interface LeaseKey {
  name: string;
  /** Unique to this start of this server. */
  owner: string;
}

/** Takes a lease that is free, ran out, or is this owner's already. @returns whether it is this owner's now. */
export async function acquireLease(db: Db, lease: LeaseKey & { leaseMs: number }): Promise<boolean> {
  const { rows } = await sql`
    insert into leases (name, owner, lease_until)
    values (${lease.name}, ${lease.owner}, now() + ${lease.leaseMs} * interval '1 millisecond')
    on conflict (name) do update set owner = excluded.owner, lease_until = excluded.lease_until
     where leases.owner = excluded.owner or leases.lease_until < now()
    returning 1`.execute(db.kysely);
  return rows.length > 0;
}

/** @returns false when another owner took it meanwhile: stop what it was for. */
export async function renewLease(db: Db, lease: LeaseKey & { leaseMs: number }): Promise<boolean> {
  const { rows } = await sql`
    update leases set lease_until = now() + ${lease.leaseMs} * interval '1 millisecond'
     where name = ${lease.name} and owner = ${lease.owner} returning 1`.execute(db.kysely);
  return rows.length > 0;
}

/** Gives it up at once, so that the next owner need not wait for its end. Not this owner's: nothing happens. */
export async function releaseLease(db: Db, lease: LeaseKey): Promise<void> {
  await sql`delete from leases where name = ${lease.name} and owner = ${lease.owner}`.execute(db.kysely);
}
