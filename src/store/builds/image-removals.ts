import { randomUUID } from "node:crypto";
import type { ImageRemoval, ImageRemovalEnd } from "../../contract/listeners/image-removal.ts";
import { finalStatuses } from "../../domain/revision-status.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/** Images of one removal. The report of its Job fits into 4,096 bytes. */
const batchImages = 40;

/** Time that a Job for a removal has. */
const timeoutS = 90;

/** Nothing is pushed until a pod that had to be ended is gone as well. */
const leaseS = timeoutS + 60;

/** Pause after a removal that did not succeed. A registry that deletes nothing is asked a few times a day. */
const retryHours = 6;

/** A listener names this tag when it pushes the cache of a deployment. */
const cacheTagPrefix = "cache-";

/** Records that listeners shall remove these images. An image that another revision still needs stays until then. */
export async function recordRemovedArtifacts(trx: Db | Trx, artifactIds: string[]): Promise<void> {
  await trx.query(sql`
    insert into image_removals (listener_id, repository, reference)
    select l.id, split_part(a.manifest ->> 'uri', '@', 1), a.manifest ->> 'digest'
      from artifacts a join listeners l on l.id = a.listener_id where a.id = any(${artifactIds}::uuid[])
    on conflict (listener_id, repository, reference) do nothing`);
}

/** Records that the cache of a deployment shall be removed. Nothing happens if a listener never built for it. */
export async function recordRemovedCache(trx: Db | Trx, deploymentId: string): Promise<void> {
  await trx.query(sql`
    insert into image_removals (listener_id, repository, reference)
    select distinct l.id, l.facts ->> 'image_registry', ${cacheTagPrefix + deploymentId}
      from revisions r join builds b on b.revision_id = r.id
      join listeners l on l.id = (r.source_config ->> 'listener_id')::uuid
     where r.deployment_id = ${deploymentId} and r.source <> 'external_docker'
       and l.facts ->> 'image_registry' is not null
    on conflict (listener_id, repository, reference) do nothing`);
}

/**
 * Claims images that a listener shall remove now; null: there are none. A build could push the same image again, so there is no claim
 * while the workspace builds a revision for that repository, and `listBuildOrders` orders no build during a claim. Listeners of other
 * workspaces do not count, because each one names its repository itself and could hold up builds that are not its own.
 */
export async function claimImageRemoval(db: Db, listenerId: string): Promise<ImageRemoval | null> {
  const id = randomUUID();
  const { rows } = await db.query<{ reference: string }>(sql`
    with wanted as (
      select i.reference, i.repository from image_removals i join listeners l on l.id = i.listener_id
       where i.listener_id = ${listenerId} and i.repository = l.facts ->> 'image_registry'
         and i.next_at <= now() and coalesce(i.leased_until, now()) <= now()
         and not exists (
           select from revisions r join listeners o on o.id = (r.source_config ->> 'listener_id')::uuid
            where r.status = 'BUILDING' and o.facts ->> 'image_registry' = i.repository
              and o.tenant_id is not distinct from l.tenant_id)
         and not exists (select from artifacts a where a.manifest ->> 'digest' = i.reference)
         and not exists (
           select from revisions r where r.status <> all(${finalStatuses}::text[])
              and r.source_revision_config ->> 'image_uri' like '%@' || i.reference)
       order by i.created_at limit ${batchImages} for update of i skip locked
    )
    update image_removals i set lease_id = ${id}, leased_until = now() + ${leaseS} * interval '1 second'
      from wanted w
     where i.listener_id = ${listenerId} and i.repository = w.repository and i.reference = w.reference
    returning i.reference`);
  return rows.length === 0
    ? null
    : { removal_id: id, references: rows.map(({ reference }) => reference), timeout_s: timeoutS };
}

/** Forgets the images that are gone. The others are tried again later, and so are all of this listener when the registry deletes none. */
export async function endImageRemoval(db: Db, listenerId: string, end: ImageRemovalEnd): Promise<void> {
  const { removal_id: id, removed, message } = end;
  await db.query(sql`
    with gone as (
      delete from image_removals
       where listener_id = ${listenerId} and lease_id = ${id} and reference = any(${removed}::text[])
    )
    update image_removals
       set lease_id = null, leased_until = null, next_at = now() + ${retryHours} * interval '1 hour'
     where listener_id = ${listenerId} and reference <> all(${removed}::text[])
       and (lease_id = ${id} or ${message !== null && removed.length === 0}::boolean and lease_id is null)`);
  db.changes.wake();
}
