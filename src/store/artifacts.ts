import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Artifact } from "../contract/assignment.ts";
import type { Db, Trx } from "./database.ts";

export interface ArtifactRow {
  id: string;
  key: string;
  manifest: Artifact;
}

/** Remembers an artifact under its key; one that is there already keeps its id. */
export async function saveArtifact(db: Db | Trx, tenantId: string, key: string, manifest: Artifact): Promise<string> {
  const { rows } = await sql<{ id: string }>`
    insert into artifacts (id, tenant_id, key, manifest) values (${randomUUID()}, ${tenantId}, ${key}, ${JSON.stringify(manifest)}::jsonb)
    on conflict (tenant_id, key) do update set last_used_at = now(), manifest = excluded.manifest returning id`.execute(
    db.kysely,
  );
  return (rows[0] as { id: string }).id;
}

export async function findArtifactByKey(db: Db | Trx, tenantId: string, key: string): Promise<ArtifactRow | undefined> {
  const { rows } = await sql<ArtifactRow>`
    select id, key, manifest from artifacts where tenant_id = ${tenantId} and key = ${key}`.execute(db.kysely);
  return rows[0];
}

export async function findArtifact(db: Db | Trx, id: string): Promise<ArtifactRow | undefined> {
  const { rows } = await sql<ArtifactRow>`select id, key, manifest from artifacts where id = ${id}`.execute(db.kysely);
  return rows[0];
}

/**
 * Forgets the artifacts that only this deployment stands on, and says which they were, so that their files can go.
 * Called while the deployment is in AWAITING_FINAL_DELETE: no new revision can appear.
 */
export async function dropArtifactsOf(db: Db | Trx, deploymentId: string): Promise<ArtifactRow[]> {
  const { rows } = await sql<ArtifactRow>`
    with mine as (select distinct artifact_id as id from revisions where deployment_id = ${deploymentId} and artifact_id is not null),
    doomed as (
      select m.id from mine m
       where not exists (select 1 from revisions r where r.artifact_id = m.id and r.deployment_id <> ${deploymentId})
    ), freed as (
      update revisions set artifact_id = null where deployment_id = ${deploymentId} and artifact_id in (select id from doomed)
      returning artifact_id
    )
    select a.id, a.key, a.manifest from artifacts a join doomed d on d.id = a.id`.execute(db.kysely);
  if (rows.length > 0) {
    await sql`delete from artifacts where id = any(${rows.map((row) => row.id)}::uuid[])`.execute(db.kysely);
  }
  return rows;
}
