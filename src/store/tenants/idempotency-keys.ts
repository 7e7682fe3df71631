import { type RawBuilder, sql } from "kysely";
import { byteaText } from "../engine/column-parsers.ts";
import type { Db } from "../engine/database.ts";
import type { Sealed, Sealer } from "../secrets/seal.ts";

/** Under which name an answer is kept: a text the client chose, within a workspace (or an organization). */
export interface IdempotencyKey {
  scopeId: string;
  key: string;
}

/** What was answered, and to which request: `requestDigest` tells another one that uses the same key. */
export interface SavedResponse {
  requestDigest: string;
  status: number;
  headers: Record<string, string>;
  text: string;
}

/** An answer ready to be written. Answers carry secrets, and a digest of few unknown bits is one: both are sealed. */
export interface SealedResponse extends IdempotencyKey, Sealed {}

/** How long an answer is kept at least. */
export const savedResponseDays = 1;

export function sealResponse(
  sealer: Pick<Sealer, "seal">,
  key: IdempotencyKey,
  { text, ...head }: SavedResponse,
): SealedResponse {
  return { ...key, ...sealer.seal(Buffer.from(`${JSON.stringify(head)}\n${text}`), boundTo(key)) };
}

/** CTE body, or a statement of its own, that keeps an answer, or nothing. A key in use fails. */
export function insertedResponse(kept: SealedResponse | null): RawBuilder<unknown> {
  if (kept === null) return sql`select 1`;
  return sql`
      insert into idempotency_keys (scope_id, key, data_key_id, sealed)
      values (${kept.scopeId}, ${kept.key}, ${kept.keyId}, ${kept.sealed})`;
}

/** The same for the rows of an earlier CTE (`source`, with `answer` as `answerColumns` gives it). */
export function insertedResponses(source: string): RawBuilder<unknown> {
  return sql`
      insert into idempotency_keys (scope_id, key, data_key_id, sealed)
      select r.scope_id, r.key, r.data_key_id, r.sealed
        from ${sql.table(source)} s, jsonb_populate_record(null::idempotency_keys, s.answer) r where s.answer is not null`;
}

export function responseColumns(kept: SealedResponse | null) {
  return kept && { scope_id: kept.scopeId, key: kept.key, data_key_id: kept.keyId, sealed: byteaText(kept.sealed) };
}

export async function saveResponse(db: Db, kept: SealedResponse): Promise<void> {
  await insertedResponse(kept).execute(db.kysely);
}

export async function findSavedResponse(
  db: Db,
  sealer: Sealer,
  key: IdempotencyKey,
): Promise<SavedResponse | undefined> {
  const { rows } = await sql<{ data_key_id: string; sealed: Buffer }>`
    select data_key_id, sealed from idempotency_keys where scope_id = ${key.scopeId} and key = ${key.key}`.execute(
    db.kysely,
  );
  const row = rows[0];
  if (row === undefined) return undefined;
  const opened = sealer.open({ keyId: row.data_key_id, sealed: row.sealed }, boundTo(key)).toString();
  const end = opened.indexOf("\n");
  return { ...(JSON.parse(opened.slice(0, end)) as Omit<SavedResponse, "text">), text: opened.slice(end + 1) };
}

const boundTo = ({ scopeId, key }: IdempotencyKey) => `answer/${scopeId}/${key}`;
