import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { failInterruptedSignIns } from "../oauth/oauth-requests.ts";

/**
 * Ends the leases that an earlier process of this installation left, so that its work continues at once instead of after
 * the leases expire. Only for the one process that holds the installation's directory: no other can still be working.
 * @param installation prefix of the owner names that it used, up to a `:`.
 */
export async function takeOverLeases(db: Db, installation: string): Promise<void> {
  const mine = `${installation}:`;
  await db.query(sql`
    with left_builds as (
      update builds set lease_until = least(lease_until, now() - interval '1 second')
       where status = 'running' and starts_with(owner, ${mine}) returning deployment_id
    ), passes as (
      update reconcile_queue
         set run_at = now(), lease_owner = case when starts_with(lease_owner, ${mine}) then null else lease_owner end,
             lease_until = case when starts_with(lease_owner, ${mine}) then null else lease_until end
       where starts_with(lease_owner, ${mine}) or deployment_id in (select deployment_id from left_builds)
    ), refreshes as (
      update oauth_tokens set refresh_until = null where refresh_until is not null and starts_with(refresh_owner, ${mine})
    ), deliveries as (
      update webhook_deliveries set lease_owner = null, lease_until = null
       where lease_owner is not null and starts_with(lease_owner, ${mine})
    )
    select 1`);
  await failInterruptedSignIns(db, { owner: mine });
}
