import { type RawBuilder, sql } from "kysely";
import type { Db } from "./database.ts";

/** What a client sent to say "this is the same request": its key, and a digest of the request to check that it is. */
export interface IdempotencyKey {
  key: string;
  requestHash: Buffer;
}

export async function findIdempotencyKey(
  db: Db,
  tenantId: string,
  key: string,
): Promise<{ requestHash: Buffer; deploymentId: string } | undefined> {
  const { rows } = await sql<{ request_hash: Buffer; deployment_id: string }>`
    select request_hash, deployment_id from idempotency_keys where tenant_id = ${tenantId} and key = ${key}`.execute(
    db.kysely,
  );
  const row = rows[0];
  return row && { requestHash: row.request_hash, deploymentId: row.deployment_id };
}

/** CTE body that remembers the key with the deployment it made, or nothing. */
export function insertedIdempotencyKey(
  used: IdempotencyKey | null,
  deployment: { id: string; tenant_id: string },
): RawBuilder<unknown> {
  if (used === null) return sql`select 1`;
  return sql`
      insert into idempotency_keys (tenant_id, key, request_hash, deployment_id)
      values (${deployment.tenant_id}, ${used.key}, ${used.requestHash}, ${deployment.id})`;
}
