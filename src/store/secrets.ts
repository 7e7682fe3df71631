import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Db, Trx } from "./database.ts";
import type { Sealer } from "./seal.ts";

/** A set of secrets ready to be written: AES-256-GCM of a JSON map, bound to its tenant and deployment. */
export interface SealedSet {
  id: string;
  dataKeyId: string;
  sealed: Buffer;
}

interface Owner {
  id: string;
  tenant_id: string;
}

export function sealSecrets(sealer: Sealer, values: Record<string, string>, deployment: Owner): SealedSet {
  const { keyId, sealed } = sealer.seal(Buffer.from(JSON.stringify(values)), boundTo(deployment));
  return { id: randomUUID(), dataKeyId: keyId, sealed };
}

/** @throws SealError when the master key is another one, or the row was changed by hand. */
export function openSecrets(
  sealer: Sealer,
  row: { sealed_secrets: Buffer | null; secrets_key_id: string | null },
  deployment: Owner,
): Record<string, string> {
  if (row.sealed_secrets === null || row.secrets_key_id === null) return {};
  return JSON.parse(
    sealer.open({ keyId: row.secrets_key_id, sealed: row.sealed_secrets }, boundTo(deployment)).toString(),
  );
}

/** The set of one revision, for the listener that owns the deployment; undefined: no such set there. */
export async function findSecretSet(
  db: Db | Trx,
  sealer: Sealer,
  key: { listenerId: string; deploymentId: string; secretSetId: string },
): Promise<Record<string, string> | undefined> {
  const { rows } = await sql<{ tenant_id: string; sealed_secrets: Buffer; secrets_key_id: string }>`
    select s.tenant_id, s.sealed as sealed_secrets, s.data_key_id as secrets_key_id
      from secret_sets s join deployments d on d.id = s.deployment_id
     where s.id = ${key.secretSetId} and d.id = ${key.deploymentId} and d.listener_id = ${key.listenerId}`.execute(
    db.kysely,
  );
  const row = rows[0];
  return row === undefined ? undefined : openSecrets(sealer, row, { id: key.deploymentId, tenant_id: row.tenant_id });
}

/** CTE body that writes the set, or nothing. */
export function insertedSecretSet(set: SealedSet | null, deployment: Owner): RawBuilder<unknown> {
  if (set === null) return sql`select 1`;
  return sql`
      insert into secret_sets (id, tenant_id, deployment_id, data_key_id, sealed)
      values (${set.id}, ${deployment.tenant_id}, ${deployment.id}, ${set.dataKeyId}, ${set.sealed})`;
}

const boundTo = (deployment: Owner) => `secrets/${deployment.tenant_id}/${deployment.id}`;
