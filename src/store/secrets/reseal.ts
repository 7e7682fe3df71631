import { sealedGithubApp } from "../code-hosts/github-app.ts";
import { sealedIntegrations } from "../code-hosts/integrations.ts";
import { sealedPasswords } from "../deployments/deployment-databases.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { sealedProviders } from "../oauth/oauth-providers.ts";
import { sealedTokens } from "../oauth/oauth-tokens.ts";
import { sealedVariableGroups } from "../variables/variable-groups.ts";
import { sealedWebhooks } from "../webhooks/webhooks.ts";
import { SealError, type SealedColumn, type Sealer } from "./seal.ts";
import { sealedSecretSets } from "./secrets.ts";

/** Every sealed column with long-lived values. Sign-ins and saved responses expire within a day, before their key matters. */
export const sealedColumns: readonly SealedColumn[] = [
  sealedSecretSets,
  sealedPasswords,
  sealedProviders,
  sealedTokens,
  sealedWebhooks,
  sealedIntegrations,
  sealedGithubApp,
  sealedVariableGroups,
];

/** Values resealed per page: usually at most 4 KiB each, so about 1 MiB. */
const pageRows = 200;

/** Creates a new data key when the newest one is older than `days`. @returns whether it did. */
export async function renewDataKey(db: Db, sealer: Sealer, { days }: { days: number }): Promise<boolean> {
  const { rows } = await db.query(sql`
    select 1 from data_keys having max(created_at) < now() - ${days} * interval '1 day'`);
  if (rows.length === 0) return false;
  await sealer.rotateDataKey();
  return true;
}

/**
 * Reseals values from older data keys under the active one. A value that changes meanwhile is left as it is.
 * @returns how many values were resealed.
 * @throws SealError, after all other values, if some do not open.
 */
export async function resealValues(db: Db, sealer: Sealer, signal: AbortSignal): Promise<number> {
  let done = 0;
  let broken = 0;
  for (const place of sealedColumns) {
    for (let after = ""; !signal.aborted; ) {
      const page = await findStale(db, sealer, place, after);
      for (const row of page) {
        const isOpen = await resealOne(db, sealer, place, row);
        if (isOpen) done += 1;
        else broken += 1;
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageRows) break;
      after = last.row_id;
    }
  }
  if (broken > 0) throw new SealError(`${broken} sealed values do not open: they were changed by hand, or cut off`);
  return done;
}

interface StaleRow extends Record<string, unknown> {
  row_id: string;
  key_id: string;
  sealed: Buffer;
}

async function findStale(db: Db, sealer: Sealer, place: SealedColumn, after: string): Promise<StaleRow[]> {
  const { table, id, keyColumn, column, boundBy } = place;
  const { rows } = await db.query<StaleRow>(sql`
    select ${sql.identifier(id)}::text as row_id, ${sql.identifier(keyColumn)} as key_id, ${sql.identifier(column)} as sealed,
           ${sql.join(boundBy.map((name) => sql.identifier(name)))}
      from ${sql.identifier(table)}
     where ${sql.identifier(keyColumn)} <> ${sealer.activeKeyId} and ${sql.identifier(id)}::text > ${after}
     order by ${sql.identifier(id)}::text limit ${pageRows}`);
  return rows;
}

/** Reseals one value. @returns false when it does not open. */
async function resealOne(db: Db, sealer: Sealer, place: SealedColumn, row: StaleRow): Promise<boolean> {
  const { table, id, keyColumn, column } = place;
  const boundTo = place.boundTo(row);
  let plaintext: Buffer;
  try {
    plaintext = sealer.open({ keyId: row.key_id, sealed: row.sealed }, boundTo);
  } catch (error) {
    if (error instanceof SealError) return false;
    throw error;
  }
  const { keyId, sealed } = sealer.seal(plaintext, boundTo);
  await db.query(sql`
    update ${sql.identifier(table)} set ${sql.identifier(keyColumn)} = ${keyId}, ${sql.identifier(column)} = ${sealed}
     where ${sql.identifier(id)} = ${row.row_id} and ${sql.identifier(column)} = ${row.sealed}`);
  return true;
}
