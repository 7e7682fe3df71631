import { createHash, randomBytes, randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { errors } from "../../contract/error.ts";
import type { EventType } from "../../contract/logs/event.ts";
import type { WebhookFormat } from "../../contract/webhooks/webhook.ts";
import { changesBetween } from "../../domain/audit.ts";
import { secretGraceMs, webhooksMax } from "../../domain/webhook-schedule.ts";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import type { Sealed, SealedColumn, Sealer } from "../secrets/seal.ts";
import { type AuditNote, audited } from "../tenants/audit.ts";
import { webhooksTable } from "./tables.ts";

export interface WebhookSettings {
  url: string;
  format: WebhookFormat;
  description: string | null;
  types: EventType[] | null;
  deployment_ids: string[] | null;
  enabled: boolean;
}

export interface WebhookRow extends WebhookSettings {
  id: string;
  tenant_id: string;
  disabled_reason: string | null;
  failing_since: Date | null;
  created_at: Date;
  updated_at: Date;
}

/** A webhook as it is stored. */
export interface StoredWebhook extends RowOf<typeof webhookFields>, Sealed {}

/** The workspace and actor of a request: for access to rows and for the audit log. */
interface Owner {
  organizationId: string;
  tenantId: string;
  actor: string;
}

/** The sealed part of a webhook. */
interface WebhookSecrets {
  url: string;
  /** Newest first. */
  keys: SigningKey[];
}

/** A signing key; `until` null: the current one. */
interface SigningKey {
  secret: string;
  until: string | null;
}

export const sealedWebhooks: SealedColumn = {
  ...{ table: "webhooks", id: "id", keyColumn: "data_key_id", column: "sealed" },
  boundBy: ["id", "tenant_id"],
  boundTo: (row) => boundTo(row as unknown as WebhookRow),
};

const webhookFields = pick(
  webhooksTable,
  "id",
  "tenant_id",
  "origin",
  "description",
  "types",
  "deployment_ids",
  "enabled",
  "format",
  "disabled_reason",
  "failing_since",
  "created_at",
  "updated_at",
  "sealed",
);
const columns = sql`${selectList(webhookFields, "w")}, w.data_key_id as "keyId"`;

/** Returns webhooks, oldest first, so that pages do not shift when one is added. */
export async function listWebhooks(
  db: Db,
  sealer: Sealer,
  tenantId: string,
  page: { limit: number; offset: number },
): Promise<WebhookRow[]> {
  const { rows } = await db.query<StoredWebhook>(sql`
    select ${columns} from webhooks w where w.tenant_id = ${tenantId}
     order by w.created_at, w.id limit ${page.limit} offset ${page.offset}`);
  return rows.map((row) => openRow(sealer, row));
}

/** Returns a webhook. @throws ApiError 404 for an unknown one and equally for another workspace's. */
export async function readWebhook(db: Db | Trx, sealer: Sealer, tenantId: string, id: string): Promise<WebhookRow> {
  const { rows } = await db.query<StoredWebhook>(sql`
    select ${columns} from webhooks w where w.id = ${id} and w.tenant_id = ${tenantId}`);
  return openRow(sealer, found(rows[0], id));
}

/**
 * Writes a webhook that receives events from now on.
 * @returns it with its secret, which is never shown again.
 * @throws ApiError 400 `tooManyWebhooks`; 404 for a deployment of another workspace.
 */
export async function createWebhook(
  db: Db,
  sealer: Sealer,
  owner: Owner,
  made: WebhookSettings,
): Promise<{ row: WebhookRow; secret: string }> {
  const id = randomUUID();
  const secret = newSecret();
  const secrets = { url: made.url, keys: [{ secret, until: null }] };
  const { keyId, sealed } = sealWebhook(sealer, { id, tenant_id: owner.tenantId }, secrets);
  const origin = originOf(made.url);
  const row = await db.transaction(async (trx) => {
    await checkLimit(trx, owner.tenantId);
    await checkDeployments(trx, owner.tenantId, made.deployment_ids);
    await startAtNewestEvent(trx);
    await trx.query(sql`
      with webhook as (
        insert into webhooks (id, tenant_id, origin, description, types, deployment_ids, enabled, format,
          data_key_id, sealed, after_event)
        values (${id}, ${owner.tenantId}, ${origin}, ${made.description}, ${made.types}, ${made.deployment_ids},
          ${made.enabled}, ${made.format}, ${keyId}, ${sealed}, ${newestEvent})
      ) ${auditedWebhook(owner, { id, origin }, { action: "webhook.create" })}`);
    return readWebhook(trx, sealer, owner.tenantId, id);
  });
  return { row, secret };
}

/**
 * Changes a webhook; absent fields are unchanged. When enabled again it receives events from now on, and the deliveries
 * that were pending when it was disabled.
 * @throws ApiError 404, also for a deployment of another workspace.
 */
export async function changeWebhook(
  db: Db,
  sealer: Sealer,
  owner: Owner,
  id: string,
  change: Partial<WebhookSettings>,
): Promise<WebhookRow> {
  return db.transaction(async (trx) => {
    const stored = await lockWebhook(trx, owner.tenantId, id);
    const before = openRow(sealer, stored);
    const { url, format, description, types, deployment_ids, enabled } = before;
    const settings = { url, format, description, types, deployment_ids, enabled };
    const after = { ...settings, ...change };
    if (isDeepStrictEqual(settings, after)) return before;
    const changes = changesBetween(shownSettings(settings), shownSettings(after));
    if (change.deployment_ids !== undefined) await checkDeployments(trx, owner.tenantId, after.deployment_ids);
    const isSwitchedOn = after.enabled && !enabled;
    const { keys } = openSealed(sealer, stored);
    const { keyId, sealed } = after.url === url ? stored : sealWebhook(sealer, stored, { url: after.url, keys });
    const origin = after.url === url ? stored.origin : originOf(after.url);
    if (isSwitchedOn) await startAtNewestEvent(trx);
    await trx.query(sql`
      with webhook as (
        update webhooks set origin = ${origin}, data_key_id = ${keyId}, sealed = ${sealed}, description = ${after.description}, types = ${after.types},
               deployment_ids = ${after.deployment_ids}, enabled = ${after.enabled}, format = ${after.format}, updated_at = now(),
               disabled_reason = case when ${after.enabled} then null else disabled_reason end,
               failing_since = case when ${isSwitchedOn} then null else failing_since end,
               after_event = case when ${isSwitchedOn} then ${newestEvent} else after_event end
         where id = ${id}
      ), waiting as (
        update webhook_deliveries set attempts = 0, next_attempt_at = now()
         where webhook_id = ${id} and status = 'pending' and lease_owner is null and ${isSwitchedOn}
      ) ${auditedWebhook(owner, { id, origin }, { action: "webhook.patch", changes })}`);
    return readWebhook(trx, sealer, owner.tenantId, id);
  });
}

/** Deletes a webhook. @throws ApiError 404. */
export async function deleteWebhook(db: Db, owner: Owner, id: string): Promise<void> {
  await db.transaction(async (trx) => {
    const { origin } = await lockWebhook(trx, owner.tenantId, id);
    await trx.query(sql`
      with webhook as (delete from webhooks where id = ${id})
      ${auditedWebhook(owner, { id, origin }, { action: "webhook.delete" })}`);
  });
}

/**
 * Replaces the secret of a webhook. The previous one also signs for `secretGraceMs`, so that a receiver can be changed
 * without a gap; older ones end.
 * @throws ApiError 404.
 */
export async function replaceWebhookSecret(db: Db, sealer: Sealer, owner: Owner, id: string): Promise<string> {
  const secret = newSecret();
  const until = new Date(db.now().getTime() + secretGraceMs).toISOString();
  await db.transaction(async (trx) => {
    const row = await lockWebhook(trx, owner.tenantId, id);
    const { url, keys } = openSealed(sealer, row);
    const kept = keys.slice(0, 1).map((newest) => ({ ...newest, until }));
    const { keyId, sealed } = sealWebhook(sealer, row, { url, keys: [{ secret, until: null }, ...kept] });
    await trx.query(sql`
      with webhook as (
        update webhooks set data_key_id = ${keyId}, sealed = ${sealed}, updated_at = now() where id = ${id}
      ) ${auditedWebhook(owner, row, { action: "webhook.replace_secret" })}`);
  });
  return secret;
}

/** Returns the address of a webhook and the secrets that sign now, newest first. */
export function openWebhook(sealer: Sealer, row: SealedRow, now: Date): { url: string; secrets: string[] } {
  const { url, keys } = openSealed(sealer, row);
  const isGood = ({ until }: SigningKey) => until === null || new Date(until) > now;
  return { url, secrets: keys.filter(isGood).map(({ secret }) => secret) };
}

/** Seals complete addresses that early versions stored in clear. @returns how many. */
export async function sealAddresses(db: Db, sealer: Sealer): Promise<number> {
  const { rows } = await db.query<StoredWebhook>(sql`
    select ${columns} from webhooks w where w.origin like '%://%/%'`);
  for (const row of rows) {
    const { keyId, sealed } = sealWebhook(sealer, row, openSealed(sealer, row));
    await db.query(sql`
      update webhooks set origin = ${originOf(row.origin)}, data_key_id = ${keyId}, sealed = ${sealed}
       where id = ${row.id} and origin = ${row.origin} and sealed = ${row.sealed}`);
  }
  return rows.length;
}

/** CTE body or statement that writes the audit row for a change of a webhook. */
export function auditedWebhook(
  owner: Owner,
  webhook: { id: string; origin: string },
  note: Omit<AuditNote, "actor">,
): Sql {
  const subject = { organizationId: owner.organizationId, workspaceId: owner.tenantId, id: webhook.id };
  return audited({ ...subject, name: originOf(webhook.origin) }, { ...note, actor: owner.actor });
}

export async function lockWebhook(trx: Trx, tenantId: string, id: string): Promise<StoredWebhook> {
  const { rows } = await trx.query<StoredWebhook>(sql`
    select ${columns} from webhooks w
     where w.id = ${id} and w.tenant_id = ${tenantId} for update`);
  return found(rows[0], id);
}

/** Returns whether any webhook is enabled. */
export async function hasWebhooks(db: Db): Promise<boolean> {
  const { rows } = await db.query(sql`select 1 from webhooks where enabled limit 1`);
  return rows.length > 0;
}

function found<Row>(row: Row | undefined, id: string): Row {
  if (row === undefined) throw errors.webhookNotFound(id);
  return row;
}

/** Returns scheme and host only, because path and query of a webhook may be a secret of its receiver. */
function originOf(url: string): string {
  if (url.startsWith("mailto:")) return "mailto:";
  return URL.canParse(url) ? new URL(url).origin : "";
}

/** Returns settings for the audit log, which show that the path of an address changed but not the path. */
const shownSettings = ({ url, ...settings }: WebhookSettings) => ({
  ...settings,
  url: originOf(url),
  address: createHash("sha256").update(url).digest("hex").slice(0, 8),
});

const newestEvent = sql`(select coalesce(max(id), 0) from events)`;

/** Returns 24 random bytes, the minimum of the Standard Webhooks specification. */
const newSecret = () => `whsec_${randomBytes(24).toString("base64")}`;

const boundTo = (webhook: { id: string; tenant_id: string }) => `webhook/${webhook.tenant_id}/${webhook.id}`;

function sealWebhook(
  sealer: Sealer,
  webhook: { id: string; tenant_id: string },
  { url, keys }: WebhookSecrets,
): Sealed {
  return sealer.seal(Buffer.from(JSON.stringify({ url, keys })), boundTo(webhook));
}

type SealedRow = Pick<StoredWebhook, "id" | "tenant_id" | "origin" | "keyId" | "sealed">;

/** Opens the sealed part. Early versions sealed the keys only. */
function openSealed(sealer: Sealer, row: SealedRow): WebhookSecrets {
  const opened: WebhookSecrets | SigningKey[] = JSON.parse(sealer.open(row, boundTo(row)).toString());
  return Array.isArray(opened) ? { url: row.origin, keys: opened } : opened;
}

function openRow(sealer: Sealer, row: StoredWebhook): WebhookRow {
  const { origin: _origin, keyId: _keyId, sealed: _sealed, ...rest } = row;
  return { ...rest, url: openSealed(sealer, row).url };
}

/** Checks the limit. Locks the workspace's row, so that of two concurrent calls the second one counts the first. */
async function checkLimit(trx: Trx, tenantId: string): Promise<void> {
  await trx.query(sql`select 1 from workspaces where id = ${tenantId} for no key update`);
  const { rows } = await trx.query<{ count: number }>(sql`
    select count(*) as count from webhooks where tenant_id = ${tenantId}`);
  if ((rows[0]?.count ?? 0) >= webhooksMax) throw errors.tooManyWebhooks(webhooksMax);
}

async function checkDeployments(trx: Trx, tenantId: string, ids: string[] | null): Promise<void> {
  if (ids === null) return;
  const { rows } = await trx.query<{ id: string }>(sql`
    select wanted.id from unnest(${ids}::uuid[]) as wanted (id)
     where not exists (select 1 from deployments d where d.id = wanted.id and d.tenant_id = ${tenantId}) limit 1`);
  const [missing] = rows;
  if (missing !== undefined) throw errors.deploymentNotFound(missing.id);
}

/** Moves the position of deliveries to now if no webhook was enabled, because it does not advance meanwhile. */
async function startAtNewestEvent(trx: Trx): Promise<void> {
  await trx.query(sql`
    insert into webhook_position (event_id) select ${newestEvent} where not exists (select 1 from webhooks where enabled)
    on conflict (singleton) do update set event_id = greatest(webhook_position.event_id, excluded.event_id)`);
}
