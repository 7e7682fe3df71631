import { byteaText } from "../engine/column-parsers.ts";
import type { Db } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import type { Sealed, Sealer } from "../secrets/seal.ts";

/** The key of a saved response: a text chosen by the client, within a workspace or an organization. */
export interface IdempotencyKey {
  scopeId: string;
  key: string;
}

/** A saved response. `requestDigest` identifies its request, to detect another request with the same key. */
export interface SavedResponse {
  requestDigest: string;
  status: number;
  headers: Record<string, string>;
  text: string;
}

/** A response ready to be stored. It is sealed because responses contain secrets, and so may the digest of a short request. */
export interface SealedResponse extends IdempotencyKey, Sealed {}

/** The minimum time for which a response is saved. */
export const savedResponseDays = 1;

export function sealResponse(
  sealer: Pick<Sealer, "seal">,
  key: IdempotencyKey,
  { text, ...head }: SavedResponse,
): SealedResponse {
  return { ...key, ...sealer.seal(Buffer.from(`${JSON.stringify(head)}\n${text}`), boundTo(key)) };
}

/** CTE body, or a statement of its own, that saves a response, or nothing for null. Fails when the key is in use. */
export function insertedResponse(kept: SealedResponse | null): Sql {
  if (kept === null) return sql`select 1`;
  return sql`
      insert into idempotency_keys (scope_id, key, data_key_id, sealed)
      values (${kept.scopeId}, ${kept.key}, ${kept.keyId}, ${kept.sealed})`;
}

/** CTE body that saves the responses in the rows of an earlier CTE (`source`, with `answer` from `responseColumns`). */
export function insertedResponses(source: string): Sql {
  return sql`
      insert into idempotency_keys (scope_id, key, data_key_id, sealed)
      select r.scope_id, r.key, r.data_key_id, r.sealed
        from ${sql.identifier(source)} s, jsonb_populate_record(null::idempotency_keys, s.answer) r where s.answer is not null`;
}

export function responseColumns(kept: SealedResponse | null) {
  return kept && { scope_id: kept.scopeId, key: kept.key, data_key_id: kept.keyId, sealed: byteaText(kept.sealed) };
}

export async function saveResponse(db: Db, kept: SealedResponse): Promise<void> {
  await db.query(insertedResponse(kept));
}

export async function findSavedResponse(
  db: Db,
  sealer: Sealer,
  key: IdempotencyKey,
): Promise<SavedResponse | undefined> {
  const { rows } = await db.query<{ data_key_id: string; sealed: Buffer }>(sql`
    select data_key_id, sealed from idempotency_keys where scope_id = ${key.scopeId} and key = ${key.key}`);
  const row = rows[0];
  if (row === undefined) return undefined;
  const opened = sealer.open({ keyId: row.data_key_id, sealed: row.sealed }, boundTo(key)).toString();
  const end = opened.indexOf("\n");
  return { ...(JSON.parse(opened.slice(0, end)) as Omit<SavedResponse, "text">), text: opened.slice(end + 1) };
}

const boundTo = ({ scopeId, key }: IdempotencyKey) => `answer/${scopeId}/${key}`;
