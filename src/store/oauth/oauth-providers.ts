import { errors } from "../../contract/error.ts";
import { changesBetween } from "../../domain/audit.ts";
import { oauthProvidersMax } from "../../domain/limits.ts";
import { type Db, isUniqueViolation, type Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { type RowOf, selectList } from "../engine/table.ts";
import type { SealedColumn, Sealer } from "../secrets/seal.ts";
import { type AuditNote, audited } from "../tenants/audit.ts";
import { insertedResponse, type SealedResponse } from "../tenants/idempotency-keys.ts";
import { oauthProvidersTable } from "./tables.ts";

/** The fields of a provider that a request can set, apart from its secret. */
export type ProviderFields = Pick<
  ProviderRow,
  | "name"
  | "client_id"
  | "auth_url"
  | "token_url"
  | "uses_pkce"
  | "provider_type"
  | "token_endpoint_auth_method"
  | "authorization_params"
  | "allowed_redirect_uris"
  | "default_redirect_uri"
  | "issuer"
  | "revocation_url"
>;

/** The fields that only a discovery determines. */
export type DiscoveredFields = Pick<
  ProviderRow,
  "names_issuer" | "mcp_server_url" | "resource" | "is_dynamic_client" | "scopes_supported"
>;

export type ProviderRow = RowOf<typeof oauthProvidersTable.columns>;

/** The organization and actor of a change to providers. */
interface Owner {
  organizationId: string;
  actor: string;
}

export const sealedProviders: SealedColumn = {
  ...{ table: "oauth_providers", id: "id", keyColumn: "secret_key_id", column: "sealed_secret" },
  boundBy: ["id", "organization_id"],
  boundTo: (row) => boundTo(row as unknown as ProviderRow),
};

const columns = selectList(oauthProvidersTable.columns, "p");

export async function listProviders(db: Db, organizationId: string): Promise<ProviderRow[]> {
  const { rows } = await db.query<ProviderRow>(sql`
    select ${columns} from oauth_providers p where p.organization_id = ${organizationId}
     order by p.created_at, p.id`);
  return rows;
}

/** Returns a provider; undefined for an unknown one and equally for another organization's. */
export async function findProvider(
  db: Db | Trx,
  organizationId: string,
  providerId: string,
): Promise<ProviderRow | undefined> {
  const { rows } = await db.query<ProviderRow>(sql`
    select ${columns} from oauth_providers p
     where p.organization_id = ${organizationId} and p.provider_id = ${providerId}`);
  return rows[0];
}

/** Returns a provider by the id of its row, which only this server's own records contain. */
export async function findProviderRow(db: Db | Trx, id: string): Promise<ProviderRow | undefined> {
  const { rows } = await db.query<ProviderRow>(sql`select ${columns} from oauth_providers p where p.id = ${id}`);
  return rows[0];
}

/** A provider to create. Its id is chosen first, because registrations elsewhere may contain it. */
export interface NewProvider {
  id: string;
  providerId: string;
  fields: ProviderFields & DiscoveredFields;
  secret: string | null;
}

/** Returns the complete row, so that its response can be saved in the statement that writes it. */
export function draftProvider(sealer: Sealer, organizationId: string, made: NewProvider): ProviderRow {
  const at = new Date();
  return {
    ...made.fields,
    id: made.id,
    organization_id: organizationId,
    provider_id: made.providerId,
    ...sealedSecret(sealer, { id: made.id, organization_id: organizationId }, made.secret),
    has_own_callback: false,
    created_at: at,
    updated_at: at,
  };
}

/**
 * Writes a provider, and decides which redirect URI it has.
 * @returns the row that was written.
 * @throws ApiError 409 `oauthProviderTaken`, 400 `tooManyOAuthProviders`
 */
export async function insertProvider(
  db: Db,
  owner: Owner,
  row: ProviderRow,
  kept: SealedResponse | null,
): Promise<ProviderRow> {
  const { auth_url, token_url, client_id } = row;
  try {
    return await db.transaction(async (trx) => {
      await checkLimit(trx, row.organization_id);
      const isShared = await sharesName(trx, row);
      await trx.query(sql`
      with provider as (
        insert into oauth_providers (id, organization_id, provider_id, name, client_id, secret_key_id, sealed_secret,
          auth_url, token_url, uses_pkce, provider_type, token_endpoint_auth_method, authorization_params,
          allowed_redirect_uris, default_redirect_uri, issuer, names_issuer, revocation_url, mcp_server_url,
          resource, is_dynamic_client, scopes_supported, has_own_callback, created_at, updated_at)
        values (${row.id}, ${row.organization_id}, ${row.provider_id}, ${row.name}, ${client_id}, ${row.secret_key_id},
          ${row.sealed_secret}, ${auth_url}, ${token_url}, ${row.uses_pkce}, ${row.provider_type},
          ${row.token_endpoint_auth_method}, ${JSON.stringify(row.authorization_params)},
          ${JSON.stringify(row.allowed_redirect_uris)}, ${row.default_redirect_uri}, ${row.issuer}, ${row.names_issuer},
          ${row.revocation_url}, ${row.mcp_server_url}, ${row.resource}, ${row.is_dynamic_client},
          ${row.scopes_supported === null ? null : JSON.stringify(row.scopes_supported)}, ${isShared},
          ${row.created_at}, ${row.updated_at})
      ), kept as (${insertedResponse(kept)})
      ${auditedProvider(owner, row, { action: "oauth_provider.create", details: { auth_url, token_url, client_id } })}
    `);
      return { ...row, has_own_callback: isShared };
    });
  } catch (error) {
    if (isUniqueViolation(error, "oauth_providers_name")) throw errors.oauthProviderTaken(row.provider_id);
    throw error;
  }
}

/**
 * Reports whether another organization has a provider of this name whose codes could be mistaken for those of this one, and whose
 * redirect URI has the name. With the same URI, each of two servers could get the codes of the other one (mix-up; RFC 9700, section
 * 4.4), and an organization that names the public client of another one could redeem its codes. Once this is true for a provider it stays,
 * so no other organization changes an address that is registered somewhere.
 */
async function sharesName(trx: Trx, row: ProviderRow): Promise<boolean> {
  if (row.is_dynamic_client) return false;
  // Of two concurrent changes the second one sees the first. The embedded database runs one transaction at a time.
  await trx.query(sql`select pg_advisory_xact_lock(${nameLock}, hashtext(lower(${row.provider_id})))`);
  // Some servers ignore the case of redirect URIs.
  const { rows } = await trx.query<ClientAt>(sql`
    select distinct token_url, client_id, token_endpoint_auth_method from oauth_providers
     where lower(provider_id) = lower(${row.provider_id}) and organization_id <> ${row.organization_id}
       and not has_own_callback and not is_dynamic_client`);
  return rows.some((other) => originOf(other) !== originOf(row) || sharesPublicClient(other, row));
}

type ClientAt = Pick<ProviderRow, "token_url" | "client_id" | "token_endpoint_auth_method">;

const originOf = ({ token_url }: ClientAt) => new URL(token_url).origin;

/** Reports whether both are one client that proves itself by its redirect URI alone. Some servers ignore the case of its id. */
function sharesPublicClient(one: ClientAt, other: ClientAt): boolean {
  const [id, otherId] = [one, other].map(({ client_id }) => client_id.trim().toLowerCase());
  const isPublic = [one, other].some(({ token_endpoint_auth_method: method }) => method === "none");
  return isPublic && id === otherId;
}

const nameLock = 0x6f617574;

/** Checks the limit. Locks the organization's row, so that of two concurrent calls the second one counts the first. */
async function checkLimit(trx: Trx, organizationId: string): Promise<void> {
  await trx.query(sql`select 1 from organizations where id = ${organizationId} for no key update`);
  const { rows } = await trx.query<{ count: number }>(sql`
    select count(*) as count from oauth_providers where organization_id = ${organizationId}`);
  if ((rows[0]?.count ?? 0) >= oauthProvidersMax) throw errors.tooManyOAuthProviders(oauthProvidersMax);
}

/**
 * Changes a provider.
 * @param change returns the new fields for the current row, which is locked meanwhile, so that no token is added.
 * @param secret null: unchanged.
 * @throws ApiError 404, and errors of `change`.
 */
export async function changeProvider(
  db: Db,
  sealer: Sealer,
  owner: Owner,
  providerId: string,
  {
    change,
    secret,
  }: { change: (before: ProviderRow, has: { hasTokens: boolean }) => ProviderFields; secret: string | null },
): Promise<ProviderRow> {
  return db.transaction(async (trx) => {
    const { rows } = await trx.query<ProviderRow>(sql`
      select ${columns} from oauth_providers p
       where p.organization_id = ${owner.organizationId} and p.provider_id = ${providerId} for update`);
    const before = rows[0];
    if (before === undefined) throw errors.oauthProviderNotFound(providerId);
    const { rows: tokens } = await trx.query(sql`
      select 1 from oauth_tokens where provider_row_id = ${before.id} limit 1`);
    const after = change(before, { hasTokens: tokens.length > 0 });
    const sealed = secret === null ? before : sealedSecret(sealer, before, secret);
    const changes = changesBetween(
      Object.fromEntries(Object.keys(after).map((key) => [key, before[key as keyof ProviderFields]])),
      after,
    );
    if (Object.keys(changes).length === 0 && secret === null) return before;
    const hasOwnCallback = before.has_own_callback || (await sharesName(trx, { ...before, ...after }));
    await trx.query(sql`
      with provider as (
        update oauth_providers set name = ${after.name}, client_id = ${after.client_id}, auth_url = ${after.auth_url},
          token_url = ${after.token_url}, uses_pkce = ${after.uses_pkce},
          token_endpoint_auth_method = ${after.token_endpoint_auth_method},
          authorization_params = ${JSON.stringify(after.authorization_params)},
          allowed_redirect_uris = ${JSON.stringify(after.allowed_redirect_uris)},
          default_redirect_uri = ${after.default_redirect_uri}, issuer = ${after.issuer},
          revocation_url = ${after.revocation_url}, secret_key_id = ${sealed.secret_key_id},
          sealed_secret = ${sealed.sealed_secret}, has_own_callback = ${hasOwnCallback}, updated_at = now()
         where id = ${before.id})
      ${auditedProvider(owner, before, {
        action: "oauth_provider.patch",
        changes,
        ...(secret !== null && { secrets: { added: [], removed: [], changed: ["client_secret"] } }),
      })}`);
    return (await findProviderRow(trx, before.id)) as ProviderRow;
  });
}

/** Deletes a provider with its tokens, requests and connections. */
export async function deleteProvider(
  db: Db,
  owner: Owner,
  row: ProviderRow,
  kept: SealedResponse | null,
): Promise<void> {
  await db.query(sql`
    with provider as (delete from oauth_providers where id = ${row.id}
    ), kept as (${insertedResponse(kept)})
    ${auditedProvider(owner, row, { action: "oauth_provider.delete" })}`);
}

/** Returns the client secret; null for a public client, which has none. @throws SealError */
export function openProviderSecret(sealer: Sealer, row: ProviderRow): string | null {
  if (row.sealed_secret === null || row.secret_key_id === null) return null;
  return sealer.open({ keyId: row.secret_key_id, sealed: row.sealed_secret }, boundTo(row)).toString();
}

function sealedSecret(sealer: Sealer, row: Pick<ProviderRow, "id" | "organization_id">, secret: string | null) {
  if (secret === null) return { secret_key_id: null, sealed_secret: null };
  const { keyId, sealed } = sealer.seal(Buffer.from(secret), boundTo(row));
  return { secret_key_id: keyId, sealed_secret: sealed };
}

const boundTo = ({ id, organization_id }: Pick<ProviderRow, "id" | "organization_id">) =>
  `oauth-provider/${organization_id}/${id}`;

function auditedProvider(owner: Owner, row: ProviderRow, note: Omit<AuditNote, "actor">): Sql {
  return audited(
    { organizationId: owner.organizationId, workspaceId: null, id: row.id, name: row.provider_id },
    { actor: owner.actor, ...note },
  );
}
