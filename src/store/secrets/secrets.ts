import { randomUUID } from "node:crypto";
import { batched } from "../engine/batched.ts";
import { byteaText } from "../engine/column-parsers.ts";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import type { SealedColumn, Sealer } from "./seal.ts";

export const sealedSecretSets: SealedColumn = {
  ...{ table: "secret_sets", id: "id", keyColumn: "data_key_id", column: "sealed" },
  boundBy: ["tenant_id", "deployment_id"],
  boundTo: ({ tenant_id, deployment_id }) => boundTo({ tenant_id, id: deployment_id } as Owner),
};

/** A set of secrets ready to be stored: a JSON map under AES-256-GCM, bound to its tenant and deployment. */
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

/** Returns the secrets of a row. @throws SealError when the master key is another one, or the row was changed by hand. */
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

/**
 * Returns one set of a deployment; undefined: there is none. `listenerId` restricts it to the listener that owns the
 * deployment. The deployment's own id stands for the empty set of a deployment without secrets.
 */
export async function findSecretSet(
  db: Db | Trx,
  sealer: Sealer,
  key: { listenerId: string | null; deploymentId: string; secretSetId: string },
): Promise<{ tenantId: string; values: Record<string, string> } | undefined> {
  const row = await findSealedSet(db, key);
  if (row === undefined || (key.listenerId !== null && row.listener_id !== key.listenerId)) return undefined;
  const owner = { id: key.deploymentId, tenant_id: row.tenant_id };
  return { tenantId: row.tenant_id, values: openSecrets(sealer, row, owner) };
}

interface SealedSetRow {
  deployment_id: string;
  /** null: the deployment has none of the requested sets. */
  set_id: string | null;
  tenant_id: string;
  listener_id: string;
  sealed_secrets: Buffer | null;
  secrets_key_id: string | null;
}

const findSealedSet = batched(
  async (db, keys: { deploymentId: string; secretSetId: string }[]): Promise<(SealedSetRow | undefined)[]> => {
    const { rows } = await db.query<SealedSetRow>(sql`
      select d.id as deployment_id, s.id as set_id, d.tenant_id, d.listener_id, s.sealed as sealed_secrets,
             s.data_key_id as secrets_key_id
        from deployments d left join secret_sets s
          on s.deployment_id = d.id and s.id = any(${keys.map(({ secretSetId }) => secretSetId)}::uuid[])
       where d.id = any(${keys.map(({ deploymentId }) => deploymentId)}::uuid[])`);
    const found = Map.groupBy(rows, (row) => row.deployment_id);
    return keys.map(({ deploymentId, secretSetId }) => {
      const sets = found.get(deploymentId);
      if (secretSetId !== deploymentId) return sets?.find((row) => row.set_id === secretSetId);
      return sets?.[0] && { ...sets[0], sealed_secrets: null };
    });
  },
);

/**
 * CTE body that writes the secret sets in the rows of an earlier CTE (`source`, with `deployment_id`, `tenant_id` and
 * `secret_set` from `secretSetColumns`).
 */
export function insertedSecretSet(source: string): Sql {
  return sql`
      insert into secret_sets (id, tenant_id, deployment_id, data_key_id, sealed)
      select r.id, s.tenant_id, s.deployment_id, r.data_key_id, r.sealed
        from ${sql.identifier(source)} s, jsonb_populate_record(null::secret_sets, s.secret_set) r where s.secret_set is not null`;
}

export function secretSetColumns(set: SealedSet | null) {
  return set && { id: set.id, data_key_id: set.dataKeyId, sealed: byteaText(set.sealed) };
}

const boundTo = (deployment: Owner) => `secrets/${deployment.tenant_id}/${deployment.id}`;
