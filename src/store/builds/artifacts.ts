import { randomUUID } from "node:crypto";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import { batched } from "../engine/batched.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, recordColumns } from "../engine/table.ts";
import { recordRemovedArtifacts, recordRemovedCache } from "./image-removals.ts";
import { artifactsTable } from "./tables.ts";

export interface ArtifactRow {
  id: string;
  key: string;
  manifest: Artifact;
}

/** Saves an artifact under its key. An existing one keeps its id, and its row if the manifest is the same. */
export function saveArtifact(db: Db | Trx, tenantId: string, key: string, manifest: Artifact): Promise<string> {
  return saveArtifacts(db, { tenant_id: tenantId, key, manifest });
}

/** `last_used_at` is exact to this interval, so that thousands of deployments of one image do not wait for each other at its row. */
const lastUsedExactTo = sql.literal("1 hour");

const saved = recordColumns(pick(artifactsTable, "id", "tenant_id", "key", "manifest"));

const saveArtifacts = batched(async (db, made: { tenant_id: string; key: string; manifest: Artifact }[]) => {
  const wanted = made.map((one) => ({ id: randomUUID(), ...one }));
  const { rows } = await db.query<{ id: string; tenant_id: string; key: string }>(sql`
    with wanted as (
      select distinct on (tenant_id, key) * from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb)
        as w ${saved} order by tenant_id, key
    ), known as (
      select a.id, a.tenant_id, a.key from wanted w join artifacts a on a.tenant_id = w.tenant_id and a.key = w.key
       where a.manifest = w.manifest and a.last_used_at > now() - ${lastUsedExactTo}::interval
    ), saved as (
      insert into artifacts (id, tenant_id, key, manifest)
      select id, tenant_id, key, manifest from wanted w
       where not exists (select from known k where k.tenant_id = w.tenant_id and k.key = w.key)
      on conflict (tenant_id, key) do update set last_used_at = now(), manifest = excluded.manifest
      returning id, tenant_id, key
    )
    select id, tenant_id, key from known union all select id, tenant_id, key from saved`);
  return made.map(({ tenant_id, key }) => {
    return (rows.find((row) => row.tenant_id === tenant_id && row.key === key) as { id: string }).id;
  });
});

export async function findArtifactByKey(db: Db | Trx, tenantId: string, key: string): Promise<ArtifactRow | undefined> {
  const { rows } = await db.query<ArtifactRow>(sql`
    select id, key, manifest from artifacts where tenant_id = ${tenantId} and key = ${key}`);
  return rows[0];
}

export async function findArtifact(db: Db | Trx, id: string): Promise<ArtifactRow | undefined> {
  const { rows } = await db.query<ArtifactRow>(sql`select id, key, manifest from artifacts where id = ${id}`);
  return rows[0];
}

/** Returns which of these digests belong to an artifact. */
export async function findKnownDigests(db: Db, digests: string[]): Promise<Set<string>> {
  const { rows } = await db.query<{ digest: string }>(sql`
    select distinct manifest ->> 'digest' as digest from artifacts
     where manifest ->> 'digest' = any(${digests}::text[])`);
  return new Set(rows.map(({ digest }) => digest));
}

/**
 * Deletes the artifacts that only this deployment uses and returns them, so that their files can be removed. Listeners remove their
 * images and the deployment's cache. Called while the deployment is in AWAITING_DELETE, when no new revision can appear.
 */
export async function dropArtifactsOf(db: Db | Trx, deploymentId: string): Promise<ArtifactRow[]> {
  const { rows } = await db.query<ArtifactRow>(sql`
    with mine as (select distinct artifact_id as id from revisions where deployment_id = ${deploymentId} and artifact_id is not null),
    doomed as (
      select m.id from mine m
       where not exists (select 1 from revisions r where r.artifact_id = m.id and r.deployment_id <> ${deploymentId})
    ), freed as (
      update revisions set artifact_id = null where deployment_id = ${deploymentId} and artifact_id in (select id from doomed)
      returning artifact_id
    )
    select a.id, a.key, a.manifest from artifacts a join doomed d on d.id = a.id`);
  const ids = rows.map((row) => row.id);
  if (rows.some(({ manifest }) => manifest.kind === "image")) await recordRemovedArtifacts(db, ids);
  await recordRemovedCache(db, deploymentId);
  if (rows.length > 0) await db.query(sql`delete from artifacts where id = any(${ids}::uuid[])`);
  return rows;
}
