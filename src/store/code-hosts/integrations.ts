import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { errors } from "../../contract/error.ts";
import { integrationsMax } from "../../domain/limits.ts";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import type { SealedColumn, Sealer } from "../secrets/seal.ts";
import { type AuditNote, audited } from "../tenants/audit.ts";
import { integrationsTable } from "./tables.ts";

const integrationFields = pick(
  integrationsTable,
  "id",
  "tenant_id",
  "host",
  "name",
  "installation_id",
  "url",
  "username",
  "has_token",
  "has_ssh_key",
  "created_at",
  "updated_at",
);

export type IntegrationRow = RowOf<typeof integrationFields>;

/** The sealed part of an integration. */
export interface IntegrationSecrets {
  token: string | null;
  sshKey: string | null;
  sshKnownHosts: string | null;
  /** The secret with which the host signs its webhooks; unused for the GitHub App, which has its own. */
  webhookSecret: string;
}

/** The workspace and actor of a request: for access to rows and for the audit log. */
export interface Owner {
  organizationId: string;
  tenantId: string;
  actor: string;
}

export const sealedIntegrations: SealedColumn = {
  ...{ table: "integrations", id: "id", keyColumn: "data_key_id", column: "sealed" },
  boundBy: ["id", "tenant_id"],
  boundTo: (row) => boundTo(row as unknown as IntegrationRow),
};

const columns = selectList(integrationFields, "i");

/** Returns integrations, oldest first. @param page.isApp only those of the GitHub App. */
export async function listIntegrations(
  db: Db,
  tenantId: string,
  page: { limit: number; offset: number; isApp: boolean },
): Promise<IntegrationRow[]> {
  const { rows } = await db.query<IntegrationRow>(sql`
    select ${columns} from integrations i
     where i.tenant_id = ${tenantId} and (not ${page.isApp} or i.installation_id is not null)
     order by i.created_at, i.id limit ${page.limit} offset ${page.offset}`);
  return rows;
}

/** Returns an integration. @throws ApiError 404 for an unknown one and equally for another workspace's. */
export async function readIntegration(db: Db | Trx, tenantId: string, id: string): Promise<IntegrationRow> {
  const { rows } = await db.query<IntegrationRow>(sql`
    select ${columns} from integrations i where i.id = ${id} and i.tenant_id = ${tenantId}`);
  return found(rows[0], id);
}

/** Returns an integration with its sealed part; undefined: there is none. `tenantId` null: of any workspace. */
export async function openIntegration(
  db: Db | Trx,
  sealer: Sealer,
  { tenantId, id }: { tenantId: string | null; id: string },
): Promise<{ row: IntegrationRow; secrets: IntegrationSecrets } | undefined> {
  const { rows } = await db.query<IntegrationRow & { data_key_id: string; sealed: Buffer }>(sql`
    select ${columns}, i.data_key_id, i.sealed from integrations i
     where i.id = ${id} and (${tenantId}::uuid is null or i.tenant_id = ${tenantId})`);
  const [row] = rows;
  if (row === undefined) return undefined;
  const { data_key_id: keyId, sealed, ...integration } = row;
  return { row: integration, secrets: JSON.parse(sealer.open({ keyId, sealed }, boundTo(row)).toString()) };
}

export type NewIntegration = Pick<IntegrationRow, "host" | "name" | "installation_id" | "url" | "username">;

/**
 * Writes an integration. If the workspace already has the installation, returns that integration unchanged.
 * @throws ApiError 400 `tooManyIntegrations`.
 */
export async function createIntegration(
  db: Db,
  sealer: Sealer,
  owner: Owner,
  made: NewIntegration & { secrets: IntegrationSecrets },
): Promise<IntegrationRow> {
  const { secrets, ...settings } = made;
  const row = { id: randomUUID(), tenant_id: owner.tenantId };
  const { keyId, sealed } = sealer.seal(Buffer.from(JSON.stringify(secrets)), boundTo(row));
  return db.transaction(async (trx) => {
    const id = await checkLimit(trx, owner.tenantId, settings.installation_id);
    if (id !== null) return readIntegration(trx, owner.tenantId, id);
    await trx.query(sql`
      with integration as (
        insert into integrations (id, tenant_id, host, name, installation_id, url, username, has_token, has_ssh_key,
          data_key_id, sealed)
        values (${row.id}, ${row.tenant_id}, ${settings.host}, ${settings.name}, ${settings.installation_id},
          ${settings.url}, ${settings.username}, ${secrets.token !== null}, ${secrets.sshKey !== null}, ${keyId}, ${sealed})
      ) ${auditedIntegration(owner, { ...row, name: settings.name }, { action: "integration.create" })}`);
    return readIntegration(trx, owner.tenantId, row.id);
  });
}

/** Changes name and secrets; absent ones are unchanged. @throws ApiError 404. */
export async function changeIntegration(
  db: Db,
  sealer: Sealer,
  owner: Owner,
  change: { id: string; name?: string; username?: string; secrets: Partial<IntegrationSecrets>; action: string },
): Promise<IntegrationRow> {
  return db.transaction(async (trx) => {
    const { tenantId } = owner;
    const { id } = change;
    await trx.query(sql`select 1 from integrations where id = ${id} and tenant_id = ${tenantId} for update`);
    const open = await openIntegration(trx, sealer, { tenantId, id });
    if (open === undefined) throw errors.integrationNotFound(id);
    const secrets = { ...open.secrets, ...change.secrets };
    const name = change.name ?? open.row.name;
    const username = change.username ?? open.row.username;
    const isSame = name === open.row.name && username === open.row.username;
    if (isSame && isDeepStrictEqual(secrets, open.secrets)) return open.row;
    const { keyId, sealed } = sealer.seal(Buffer.from(JSON.stringify(secrets)), boundTo(open.row));
    const replaced = Object.keys(change.secrets);
    const details = { ...(name !== open.row.name && { name }), ...(replaced.length > 0 && { replaced }) };
    await trx.query(sql`
      with integration as (
        update integrations set name = ${name}, username = ${username},
               has_token = ${secrets.token !== null}, has_ssh_key = ${secrets.sshKey !== null},
               data_key_id = ${keyId}, sealed = ${sealed}, updated_at = now()
         where id = ${id}
      ) ${auditedIntegration(owner, open.row, { action: change.action, details })}`);
    return readIntegration(trx, tenantId, id);
  });
}

/** Deletes an integration. @throws ApiError 404; 409 while deployments use it. */
export async function deleteIntegration(db: Db, owner: Owner, id: string): Promise<void> {
  await db.transaction(async (trx) => {
    const row = await readIntegration(trx, owner.tenantId, id);
    const { rows } = await trx.query<{ count: number }>(sql`
      select count(*) as count from deployments
       where tenant_id = ${owner.tenantId} and source_config ->> 'integration_id' = ${id}
         and status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')`);
    const users = rows[0]?.count ?? 0;
    if (users > 0) throw errors.integrationInUse(users);
    await trx.query(sql`
      with integration as (delete from integrations where id = ${id})
      ${auditedIntegration(owner, row, { action: "integration.delete" })}`);
  });
}

/** Returns whether any workspace uses this installation. */
export async function isInstallationTaken(db: Db, installationId: number): Promise<boolean> {
  const { rows } = await db.query(sql`
    select 1 from integrations where installation_id = ${installationId} limit 1`);
  return rows.length > 0;
}

export const noSecrets: IntegrationSecrets = { token: null, sshKey: null, sshKnownHosts: null, webhookSecret: "" };

function found<Row>(row: Row | undefined, id: string): Row {
  if (row === undefined) throw errors.integrationNotFound(id);
  return row;
}

/**
 * Checks the limit. Locks the workspace's row, so that of two concurrent calls the second one counts the first.
 * @returns the integration that already has the installation.
 */
async function checkLimit(trx: Trx, tenantId: string, installationId: number | null): Promise<string | null> {
  await trx.query(sql`select 1 from workspaces where id = ${tenantId} for no key update`);
  const { rows } = await trx.query<{ count: number; id: string | null }>(sql`
    select count(*) as count, max(id::text) filter (where installation_id = ${installationId}) as id
      from integrations where tenant_id = ${tenantId}`);
  const { count = 0, id = null } = rows[0] ?? {};
  if (id === null && count >= integrationsMax) throw errors.tooManyIntegrations(integrationsMax);
  return id;
}

const boundTo = (row: { id: string; tenant_id: string }) => `integration/${row.tenant_id}/${row.id}`;

function auditedIntegration(
  owner: Owner,
  { id, name }: { id: string; name: string },
  note: Omit<AuditNote, "actor">,
): Sql {
  const subject = { organizationId: owner.organizationId, workspaceId: owner.tenantId, id, name };
  return audited(subject, { ...note, actor: owner.actor });
}
