import { randomUUID } from "node:crypto";
import { errors } from "../../contract/error.ts";
import { oauthTokensListedMax, oauthTokensMax } from "../../domain/limits.ts";
import { type Db, isForeignKeyViolation, type Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import type { SealedColumn, Sealer } from "../secrets/seal.ts";
import type { ProviderRow } from "./oauth-providers.ts";
import { oauthTokensTable } from "./tables.ts";

/**
 * The owner of a token within a workspace. With user and agent: the user's token for that agent only. Without a user: the
 * agent's own. With neither: the workspace's.
 */
export interface Subject {
  tenantId: string;
  userId: string | null;
  agentId: string | null;
}

/** A token as issued by a provider. */
export interface IssuedToken {
  accessToken: string;
  refreshToken: string | null;
  /** Remaining lifetime in ms; null: it does not expire, or its expiry is unknown. */
  lifeMs: number | null;
  scopes: string[];
  metadata: Record<string, unknown>;
  accountLabel: string | null;
}

/** The sealed part of a token. */
export type TokenSecrets = Pick<IssuedToken, "accessToken" | "refreshToken" | "metadata">;

const tokenFields = pick(
  oauthTokensTable,
  "id",
  "tenant_id",
  "provider_row_id",
  "user_id",
  "agent_id",
  "data_key_id",
  "sealed",
  "token_url",
  "client_id",
  "scopes",
  "account_label",
  "is_default",
  "is_dead",
  "expires_at",
  "generation",
  "created_at",
  "updated_at",
);

export interface TokenRow extends RowOf<typeof tokenFields> {
  /** The chosen name of its provider. */
  provider_id: string;
  /** Computed with the clock of the database, which all servers share; null: it does not expire. */
  life_left_ms: number | null;
}

export const sealedTokens: SealedColumn = {
  ...{ table: "oauth_tokens", id: "id", keyColumn: "data_key_id", column: "sealed" },
  boundBy: ["id", "tenant_id"],
  boundTo: (row) => boundTo(row as unknown as TokenRow),
};

const tokenColumns = sql`
  ${selectList(tokenFields, "t")}, p.provider_id,
  (extract(epoch from t.expires_at - now()) * 1000)::float8 as life_left_ms`;

/** Returns the secrets of a token. @throws SealError when the row was changed by hand, or the master key is another one. */
export function openToken(sealer: Sealer, row: TokenRow): TokenSecrets {
  return JSON.parse(sealer.open({ keyId: row.data_key_id, sealed: row.sealed }, boundTo(row)).toString());
}

/**
 * Returns the tokens that may be used for a subject, best first: connected to the agent, for this agent only, the default
 * one, the newest. Connected tokens count only if they belong to the subject or the agent, so no user gets another user's
 * token. An agent without a user gets every token that is connected to it.
 */
export async function findUsableTokens(
  db: Db | Trx,
  { tenantId, userId, agentId }: Subject,
  providerRowId: string,
): Promise<TokenRow[]> {
  const { rows } = await db.query<TokenRow>(sql`
    select ${tokenColumns}
      from oauth_tokens t
      join oauth_providers p on p.id = t.provider_row_id
      left join agent_connections c
        on c.oauth_token_id = t.id and c.tenant_id = t.tenant_id and c.agent_id = ${agentId}::text
     where t.tenant_id = ${tenantId} and t.provider_row_id = ${providerRowId}
       and (
         (t.user_id = ${userId}::text and (t.agent_id is null or t.agent_id = ${agentId}::text))
         or (c.id is not null and (t.user_id is null or t.user_id = ${userId}::text or ${userId}::text is null))
       )
     order by (c.id is not null) desc, (t.agent_id is not null) desc, t.is_default desc, t.created_at desc, t.id
     limit ${oauthTokensListedMax}`);
  return rows;
}

export async function findToken(db: Db | Trx, tenantId: string, id: string): Promise<TokenRow | undefined> {
  const { rows } = await db.query<TokenRow>(sql`
    select ${tokenColumns} from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
     where t.id = ${id} and t.tenant_id = ${tenantId}`);
  return rows[0];
}

/** Returns the newest tokens of one user for any agent, newest first. */
export async function listTokens(
  db: Db | Trx,
  { tenantId, userId, providerId }: { tenantId: string; userId: string; providerId: string | null },
): Promise<TokenRow[]> {
  const { rows } = await db.query<TokenRow>(sql`
    select ${tokenColumns} from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
     where t.tenant_id = ${tenantId} and t.user_id = ${userId} and p.provider_id = coalesce(${providerId}, p.provider_id)
     order by t.created_at desc, t.id limit ${oauthTokensListedMax}`);
  return rows;
}

/** Yields every token of a provider, in every workspace of its organization, a page at a time. */
export async function* tokensOfProvider(db: Db, providerRowId: string): AsyncGenerator<TokenRow[], void, undefined> {
  for (let after = noId; ; ) {
    const { rows } = await db.query<TokenRow>(sql`
      select ${tokenColumns} from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
       where t.provider_row_id = ${providerRowId} and t.id > ${after} order by t.id limit ${oauthTokensListedMax}`);
    yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < oauthTokensListedMax) return;
    after = last.id;
  }
}

/** Before every other id. */
const noId = "00000000-0000-0000-0000-000000000000";

/** Returns tokens of a workspace, of any owner: as many as can be revoked after its deletion. */
export async function listTokensIn(db: Db | Trx, tenantId: string): Promise<TokenRow[]> {
  const { rows } = await db.query<TokenRow>(sql`
    select ${tokenColumns} from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
     where t.tenant_id = ${tenantId} order by t.id limit ${5 * oauthTokensListedMax}`);
  return rows;
}

export async function listWorkspaceTokens(db: Db, tenantId: string, providerType: string): Promise<TokenRow[]> {
  const { rows } = await db.query<TokenRow>(sql`
    select ${tokenColumns} from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
     where t.tenant_id = ${tenantId} and t.user_id is null and t.agent_id is null and p.provider_type = ${providerType}
     order by t.id`);
  return rows;
}

/** Returns which of these providers the user has a token of, without dead ones. */
export async function findProvidersWithToken(
  db: Db,
  { tenantId, userId, providerIds }: { tenantId: string; userId: string; providerIds: readonly string[] },
): Promise<Set<string>> {
  const { rows } = await db.query<{ provider_id: string }>(sql`
    select distinct p.provider_id from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
     where t.tenant_id = ${tenantId} and t.user_id = ${userId} and not t.is_dead
       and p.provider_id = any(${[...providerIds]}::text[])`);
  return new Set(rows.map(({ provider_id }) => provider_id));
}

export interface TokenToSave {
  subject: Subject;
  provider: Pick<ProviderRow, "id" | "provider_id" | "token_url" | "client_id">;
  token: IssuedToken;
  isDefault: boolean;
  /** The token of the same subject to replace; its connections stay. null: the token is added. */
  replacesTokenId: string | null;
}

/**
 * Stores a token. A subject has one default token per provider.
 * @returns its id.
 * @throws ApiError 404 `oauthProviderNotFound` when the provider was deleted in the meantime; 400 `tooManyOAuthTokens`.
 */
export async function saveToken(trx: Trx, sealer: Sealer, kept: TokenToSave): Promise<string> {
  const { subject, provider, token, isDefault } = kept;
  const { tenantId, userId, agentId } = subject;
  const replaced = await lockReplaced(trx, kept);
  const id = replaced ?? randomUUID();
  const { keyId, sealed } = sealToken(sealer, { id, tenant_id: tenantId }, token);
  const { scopes, accountLabel } = token;
  if (replaced === undefined) {
    await deleteExcess(trx, await findTokensInExcess(trx, sealer, subject, provider.id));
    await trx
      .query(sql`
      insert into oauth_tokens (id, tenant_id, provider_row_id, user_id, agent_id, data_key_id, sealed, token_url,
        client_id, scopes, account_label, expires_at)
      values (${id}, ${tenantId}, ${provider.id}, ${userId}, ${agentId}, ${keyId}, ${sealed}, ${provider.token_url},
        ${provider.client_id}, ${JSON.stringify(scopes)}, ${accountLabel}, ${expiryOf(token)})`)
      .catch((error: unknown) => {
        const isGone = isForeignKeyViolation(error, "oauth_tokens_provider_row_id_fkey");
        throw isGone ? errors.oauthProviderNotFound(provider.provider_id) : error;
      });
  } else {
    await trx.query(sql`
      update oauth_tokens set data_key_id = ${keyId}, sealed = ${sealed}, token_url = ${provider.token_url},
          client_id = ${provider.client_id}, scopes = ${JSON.stringify(scopes)},
          account_label = coalesce(${accountLabel}, account_label), expires_at = ${expiryOf(token)}, is_dead = false,
          generation = generation + 1, refresh_until = null, updated_at = now()
       where id = ${id}`);
  }
  if (isDefault) await makeDefault(trx, id);
  return id;
}

/**
 * Returns the tokens that go when their owner, a user or an agent without one, gets one more of a provider: used-up ones in excess of
 * what a provider may have issued to an owner.
 * @throws ApiError 400 `tooManyOAuthTokens` when there is no room for another token without losing usable ones.
 */
export async function findTokensInExcess(
  db: Db | Trx,
  sealer: Sealer,
  { tenantId, userId, agentId }: Subject,
  providerRowId: string,
): Promise<string[]> {
  // No index serves `is not distinct from`.
  const owner =
    userId === null
      ? sql`t.user_id is null and t.agent_id is not distinct from ${agentId}`
      : sql`t.user_id = ${userId}`;
  const ofOwner = sql`t.tenant_id = ${tenantId} and t.provider_row_id = ${providerRowId} and ${owner}`;
  const { rows: counts } = await db.query<{ count: number }>(sql`
    select count(*) as count from oauth_tokens t where ${ofOwner}`);
  const excess = (counts[0]?.count ?? 0) + 1 - oauthTokensMax;
  if (excess <= 0) return [];
  const { rows } = await db.query<TokenRow>(sql`
    select ${tokenColumns} from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
     where ${ofOwner} and (t.is_dead or t.expires_at <= now())
       and not exists (select 1 from agent_connections c where c.oauth_token_id = t.id)
     order by t.is_dead desc, t.expires_at, t.id limit ${oauthTokensListedMax}`);
  const found: string[] = [];
  for (const row of rows) {
    if (found.length === excess) break;
    if (row.is_dead || openToken(sealer, row).refreshToken === null) found.push(row.id);
  }
  if (found.length < excess) throw errors.tooManyOAuthTokens(oauthTokensMax);
  return found;
}

/** Deletes tokens that made room for another one, and records it. */
async function deleteExcess(trx: Trx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await trx.query(sql`
    with deleted as (
      delete from oauth_tokens where id = any(${[...ids]}::uuid[]) returning *
    )
    insert into oauth_token_events (id, tenant_id, provider_id, user_id, agent_id, token_id, event_type, reason, source, account_label,
        scopes, detail)
    select gen_random_uuid(), d.tenant_id, p.provider_id, d.user_id, d.agent_id, d.id, 'deleted', 'token_limit', 'delete', d.account_label,
           d.scopes, 'It could no longer be used, and a new token needed its place.'
      from deleted d join oauth_providers p on p.id = d.provider_row_id`);
}

/** Locks the row to replace, if it still belongs to the same subject and provider. */
async function lockReplaced(
  trx: Trx,
  { subject, provider, replacesTokenId }: TokenToSave,
): Promise<string | undefined> {
  if (replacesTokenId === null) return undefined;
  const { rows } = await trx.query<{ id: string }>(sql`
    select id from oauth_tokens
     where id = ${replacesTokenId} and tenant_id = ${subject.tenantId} and provider_row_id = ${provider.id}
       and user_id is not distinct from ${subject.userId} and agent_id is not distinct from ${subject.agentId}
       for update`);
  return rows[0]?.id;
}

/** Makes a token the default among those of its subject and provider. */
async function makeDefault(db: Db | Trx, id: string): Promise<void> {
  await db.query(sql`
    update oauth_tokens t set is_default = (t.id = chosen.id)
      from oauth_tokens chosen
     where chosen.id = ${id} and t.tenant_id = chosen.tenant_id and t.provider_row_id = chosen.provider_row_id
       and t.user_id is not distinct from chosen.user_id and t.agent_id is not distinct from chosen.agent_id
       and t.is_default <> (t.id = chosen.id)`);
}

/** Changes the label or the default flag of a token. @param change null: unchanged. */
export async function labelToken(
  db: Db | Trx,
  id: string,
  change: { accountLabel: string | null; isDefault: boolean | null },
): Promise<void> {
  await db.query(sql`
    update oauth_tokens set account_label = coalesce(${change.accountLabel}, account_label),
        is_default = coalesce(${change.isDefault}, is_default), updated_at = now()
     where id = ${id}`);
  if (change.isDefault === true) await makeDefault(db, id);
}

/** Deletes a token. @returns false when it was already deleted. */
export async function deleteToken(db: Db | Trx, id: string): Promise<boolean> {
  const { rows } = await db.query(sql`delete from oauth_tokens where id = ${id} returning id`);
  return rows.length > 0;
}

/**
 * Takes the right to refresh a token: one holder at a time, and only while the token is unchanged since it was read. A
 * holder that dies loses the right after `leaseMs`, or when it is restarted.
 */
export async function claimRefresh(
  db: Db,
  row: TokenRow,
  { owner, leaseMs }: { owner: string; leaseMs: number },
): Promise<boolean> {
  const { rows } = await db.query(sql`
    update oauth_tokens set refresh_until = now() + ${leaseMs} * interval '1 millisecond', refresh_owner = ${owner}
     where id = ${row.id} and generation = ${row.generation} and not is_dead
       and (refresh_until is null or refresh_until < now()) returning id`);
  return rows.length > 0;
}

/** Ends a refresh without a result, so that the next one need not wait. */
export async function releaseRefresh(db: Db, row: TokenRow): Promise<void> {
  await db.query(
    sql`update oauth_tokens set refresh_until = null where id = ${row.id} and generation = ${row.generation}`,
  );
}

/** Stores the result of a refresh. @returns false when the token was deleted or replaced meanwhile. */
export async function storeRefreshed(db: Db, sealer: Sealer, row: TokenRow, token: IssuedToken): Promise<boolean> {
  const { keyId, sealed } = sealToken(sealer, row, token);
  const { rows } = await db.query(sql`
    update oauth_tokens set data_key_id = ${keyId}, sealed = ${sealed}, scopes = ${JSON.stringify(token.scopes)},
        expires_at = ${expiryOf(token)}, generation = generation + 1, refresh_until = null, updated_at = now()
     where id = ${row.id} and generation = ${row.generation} returning id`);
  return rows.length > 0;
}

/** Marks a token that its provider rejects for good. @returns false when it was replaced meanwhile. */
export async function markDead(db: Db | Trx, row: TokenRow): Promise<boolean> {
  const { rows } = await db.query(sql`
    update oauth_tokens set is_dead = true, refresh_until = null, updated_at = now()
     where id = ${row.id} and generation = ${row.generation} and not is_dead returning id`);
  return rows.length > 0;
}

const expiryOf = ({ lifeMs }: IssuedToken) =>
  lifeMs === null ? sql`null::timestamptz` : sql`now() + ${lifeMs} * interval '1 millisecond'`;

function sealToken(sealer: Sealer, row: Pick<TokenRow, "id" | "tenant_id">, token: IssuedToken) {
  const { accessToken, refreshToken, metadata } = token;
  const secrets: TokenSecrets = { accessToken, refreshToken, metadata };
  return sealer.seal(Buffer.from(JSON.stringify(secrets)), boundTo(row));
}

const boundTo = ({ tenant_id, id }: Pick<TokenRow, "id" | "tenant_id">) => `oauth-token/${tenant_id}/${id}`;
