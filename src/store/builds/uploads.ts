import { randomUUID } from "node:crypto";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

export interface UploadRow {
  id: string;
  tenant_id: string;
  deployment_id: string;
  object_path: string;
  sha256: string | null;
  size_bytes: number | null;
  expires_at: Date;
  finished_at: Date | null;
}

/** Reserves an object path for one tarball of one deployment. `object_path` is opaque to clients and relative to the uploads directory. */
export async function startUpload(
  db: Db,
  deployment: { id: string; tenantId: string },
  expiresAt: Date,
): Promise<UploadRow> {
  const id = randomUUID();
  const { rows } = await db.query<UploadRow>(sql`
    insert into uploads (id, tenant_id, deployment_id, object_path, expires_at)
    values (${id}, ${deployment.tenantId}, ${deployment.id}, ${`uploads/${deployment.id}/${id}.tar.gz`}, ${expiresAt})
    returning id, tenant_id, deployment_id, object_path, sha256, size_bytes, expires_at, finished_at`);
  db.reached("upload started");
  return rows[0] as UploadRow;
}

/** Returns an upload; undefined also once its deployment is being deleted. */
export async function findUpload(db: Db, id: string): Promise<UploadRow | undefined> {
  const { rows } = await db.query<UploadRow>(sql`
    select id, tenant_id, deployment_id, object_path, sha256, size_bytes, expires_at, finished_at from uploads u
     where id = ${id} and ${isWanted}`);
  return rows[0];
}

/** Condition: the deployment is not being deleted. No cleanup removes files that arrive after its files were removed. */
const isWanted = sql`exists (
  select 1 from deployments d
   where d.id = u.deployment_id and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE'))`;

/**
 * Finishes an upload. Call it once the file is durable under its final name. Repeating the upload replaces the file until a
 * revision uses it.
 * @returns false when its deployment was deleted meanwhile: the caller must then remove the file.
 */
export async function finishUpload(db: Db, id: string, file: { sha256: string; sizeBytes: number }): Promise<boolean> {
  const { rows } = await db.query(sql`
    update uploads u set sha256 = ${file.sha256}, size_bytes = ${file.sizeBytes}, finished_at = now()
     where id = ${id} and ${isWanted} returning id`);
  db.reached("upload finished");
  return rows.length > 0;
}

/** Returns the bytes of stored archives by workspace. */
export async function readUploadedBytes(db: Db): Promise<Map<string, number>> {
  const { rows } = await db.query<{ tenant_id: string; bytes: number }>(sql`
    select tenant_id, sum(size_bytes)::bigint as bytes from uploads where finished_at is not null group by tenant_id`);
  return new Map(rows.map(({ tenant_id, bytes }) => [tenant_id, bytes]));
}

/** Returns the finished upload of a deployment with the path that a PATCH names. */
export async function findFinishedUpload(
  db: Db,
  deploymentId: string,
  objectPath: string,
): Promise<UploadRow | undefined> {
  const { rows } = await db.query<UploadRow>(sql`
    select id, tenant_id, deployment_id, object_path, sha256, size_bytes, expires_at, finished_at from uploads
     where deployment_id = ${deploymentId} and object_path = ${objectPath} and finished_at is not null`);
  return rows[0];
}

/** Returns whether a revision uses the upload; its content is then fixed. */
export async function isUploadUsed(db: Db, upload: { deployment_id: string; object_path: string }): Promise<boolean> {
  const { rows } = await db.query(sql`
    select 1 from revisions
     where deployment_id = ${upload.deployment_id}
       and source_revision_config ->> 'source_tarball_path' = ${upload.object_path} limit 1`);
  return rows.length > 0;
}
