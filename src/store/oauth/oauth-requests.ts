import { hash } from "node:crypto";
import { errors } from "../../contract/error.ts";
import { type Db, isForeignKeyViolation, type Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import type { Sealer } from "../secrets/seal.ts";
import type { ProviderRow } from "./oauth-providers.ts";
import type { Subject } from "./oauth-tokens.ts";
import { oauthRequestsTable } from "./tables.ts";

const requestFields = pick(
  oauthRequestsTable,
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
  "redirect_uri",
  "is_own_callback",
  "is_default",
  "replaces_token_id",
  "actor",
  "status",
  "failure",
  "token_id",
);

/** A sign-in, from the URL that the user is sent to until the token is stored. */
export interface AuthRequestRow extends RowOf<typeof requestFields> {
  /** Computed with the clock of the database, which all servers share. */
  is_expired: boolean;
  status_age_ms: number;
}

/** Values that only the user's browser and the provider may know. */
export interface RequestSecrets {
  state: string;
  /** null: the provider is used without PKCE. */
  verifier: string | null;
}

export interface NewAuthRequest {
  id: string;
  subject: Subject;
  provider: Pick<ProviderRow, "id" | "provider_id" | "token_url" | "client_id">;
  scopes: string[];
  redirectUri: string;
  isOwnCallback: boolean;
  isDefault: boolean;
  replacesTokenId: string | null;
  actor: string;
  lifeMs: number;
}

const columns = sql`
  ${selectList(requestFields, "r")}, (r.expires_at <= now()) as is_expired,
  (extract(epoch from now() - r.status_since) * 1000)::float8 as status_age_ms`;

/**
 * Starts a sign-in. If the token that it should replace was deleted meanwhile, it replaces none.
 * @throws ApiError 404 `oauthProviderNotFound` when the provider was deleted in the meantime.
 */
export async function insertAuthRequest(
  db: Db,
  sealer: Sealer,
  made: NewAuthRequest,
  secrets: RequestSecrets,
): Promise<void> {
  const { tenantId, userId, agentId } = made.subject;
  const { keyId, sealed } = sealer.seal(
    Buffer.from(JSON.stringify(secrets)),
    boundTo({ id: made.id, tenant_id: tenantId }),
  );
  await db
    .query(sql`
    insert into oauth_requests (id, tenant_id, provider_row_id, user_id, agent_id, state_digest, data_key_id, sealed,
      token_url, client_id, scopes, redirect_uri, is_own_callback, is_default, replaces_token_id, actor, expires_at)
    values (${made.id}, ${tenantId}, ${made.provider.id}, ${userId}, ${agentId}, ${digestOf(secrets.state)}, ${keyId},
      ${sealed}, ${made.provider.token_url}, ${made.provider.client_id}, ${JSON.stringify(made.scopes)},
      ${made.redirectUri}, ${made.isOwnCallback}, ${made.isDefault},
      (select id from oauth_tokens where id = ${made.replacesTokenId}::uuid for key share), ${made.actor},
      now() + ${made.lifeMs} * interval '1 millisecond')`)
    .catch((error: unknown) => {
      const isGone = isForeignKeyViolation(error, "oauth_requests_provider_row_id_fkey");
      throw isGone ? errors.oauthProviderNotFound(made.provider.provider_id) : error;
    });
}

/**
 * Returns an open request for exactly the same that is valid for at least `lifeLeftMs`. If the code of a user's request goes
 * to an application, only the request's own actor gets it, because no other caller may submit the code.
 */
export async function findSameRequest(
  db: Db,
  made: Omit<NewAuthRequest, "id" | "lifeMs">,
  lifeLeftMs: number,
): Promise<AuthRequestRow | undefined> {
  const { tenantId, userId, agentId } = made.subject;
  const { rows } = await db.query<AuthRequestRow>(sql`
    select ${columns} from oauth_requests r
     where r.tenant_id = ${tenantId} and r.provider_row_id = ${made.provider.id} and r.status = 'pending'
       and r.user_id is not distinct from ${userId} and r.agent_id is not distinct from ${agentId}
       and r.expires_at > now() + ${lifeLeftMs} * interval '1 millisecond' and r.scopes = ${JSON.stringify(made.scopes)}::jsonb
       and r.redirect_uri = ${made.redirectUri} and r.is_default = ${made.isDefault}
       and r.token_url = ${made.provider.token_url} and r.client_id = ${made.provider.client_id}
       and r.replaces_token_id is not distinct from ${made.replacesTokenId}
       and (r.is_own_callback or r.user_id is null or r.actor = ${made.actor})
     order by r.created_at desc limit 1`);
  return rows[0];
}

export async function findAuthRequest(db: Db, id: string): Promise<AuthRequestRow | undefined> {
  const { rows } = await db.query<AuthRequestRow>(sql`
    select ${columns} from oauth_requests r where r.id = ${id}`);
  return rows[0];
}

/** Returns the request of a state, in any status. */
export async function findRequestByState(db: Db, state: string): Promise<AuthRequestRow | undefined> {
  const { rows } = await db.query<AuthRequestRow>(sql`
    select ${columns} from oauth_requests r where r.state_digest = ${digestOf(state)}`);
  return rows[0];
}

/** @throws SealError */
export function openRequest(sealer: Sealer, row: AuthRequestRow): RequestSecrets {
  return JSON.parse(sealer.open({ keyId: row.data_key_id, sealed: row.sealed }, boundTo(row)).toString());
}

/** Claims a request to finish it. Of all callers with its state one succeeds, once. */
export async function claimAuthRequest(db: Db, id: string, owner: string): Promise<boolean> {
  const { rows } = await db.query(sql`
    update oauth_requests set status = 'claimed', status_since = now(), claimed_by = ${owner}
     where id = ${id} and status = 'pending' and expires_at > now() returning id`);
  return rows.length > 0;
}

/** Completes a claimed request. @returns false when it had ended before. */
export async function completeAuthRequest(trx: Trx, id: string, tokenId: string): Promise<boolean> {
  const { rows } = await trx.query(sql`
    update oauth_requests set status = 'completed', status_since = now(), token_id = ${tokenId}
     where id = ${id} and status = 'claimed' returning id`);
  return rows.length > 0;
}

export async function failAuthRequest(db: Db | Trx, id: string, failure: string): Promise<boolean> {
  const { rows } = await db.query(sql`
    update oauth_requests set status = 'failed', status_since = now(), failure = ${failure}
     where id = ${id} and status in ('pending', 'claimed') returning id`);
  return rows.length > 0;
}

/**
 * Fails sign-ins whose server died while it exchanged the code at the provider: a code is valid once, so no other server
 * can continue. The users' history records it.
 * @param by prefix of the owner names of servers that are gone; or the age of a claim in ms.
 * @returns how many failed.
 */
export async function failInterruptedSignIns(db: Db, by: { owner: string } | { afterMs: number }): Promise<number> {
  const isGone =
    "owner" in by
      ? sql`starts_with(r.claimed_by, ${by.owner})`
      : sql`r.status_since < now() - ${by.afterMs} * interval '1 millisecond'`;
  const { rowCount } = await db.query(sql`
    with failed as (
      update oauth_requests r set status = 'failed', status_since = now(), failure = 'interrupted'
       where r.status = 'claimed' and ${isGone} returning r.tenant_id, r.provider_row_id, r.user_id, r.agent_id, r.scopes
    )
    insert into oauth_token_events (id, tenant_id, provider_id, user_id, agent_id, event_type, reason, source, scopes, detail)
    select gen_random_uuid(), f.tenant_id, p.provider_id, f.user_id, f.agent_id, 'flow_failed', 'interrupted', 'callback',
           f.scopes, 'The server was interrupted while it finished the sign-in. Start it again.'
      from failed f join oauth_providers p on p.id = f.provider_row_id`);
  return rowCount;
}

/** The state has 256 random bits, so its hash needs no salt. */
const digestOf = (state: string) => hash("sha256", state, "buffer");

const boundTo = ({ tenant_id, id }: Pick<AuthRequestRow, "id" | "tenant_id">) => `oauth-request/${tenant_id}/${id}`;
