import { isIP } from "node:net";
import { maySeeSecrets } from "../../auth/permissions.ts";
import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { EventType } from "../../contract/logs/event.ts";
import { operations } from "../../contract/operations.ts";
import type { Webhook, WebhookDelivery, WebhookFormat } from "../../contract/webhooks/webhook.ts";
import { isAllowedRecipient, recipientOf } from "../../integrations/mail.ts";
import { isPublicAddress } from "../../integrations/outbound-address.ts";
import {
  addTestDelivery,
  type DeliveryRow,
  listDeliveries,
  redeliver,
} from "../../store/webhooks/webhook-deliveries.ts";
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  listWebhooks,
  readWebhook,
  replaceWebhookSecret,
  type WebhookRow,
  type WebhookSettings,
} from "../../store/webhooks/webhooks.ts";
import type { ApiSettings } from "../deps.ts";
import { type Api, route } from "../http/route.ts";

/** Adds the routes of webhooks, which are notified of events (docs/guides/events.md). */
export function addWebhookRoutes(api: Api): void {
  const { db, sealer, settings } = api.deps;

  route(api, operations.listWebhooks, async ({ principal, query }) => {
    const rows = await listWebhooks(db, sealer, principal.tenantId, query);
    return { resources: rows.map((row) => webhookOf(row, principal)), offset: query.offset + rows.length };
  });

  route(api, operations.createWebhook, async ({ principal, body }) => {
    const { row, secret } = await createWebhook(db, sealer, principal, {
      url: checkedUrl(body.url, settings),
      format: formatOf(body.url, body.format),
      description: body.description ?? null,
      types: body.types ?? (formatOf(body.url, body.format) === "standard" ? null : alertTypes),
      deployment_ids: body.deployment_ids ?? null,
      enabled: body.enabled ?? true,
    });
    db.changes.wakeWatchers();
    return { ...webhookOf(row, principal), secret };
  });

  route(api, operations.getWebhook, async ({ principal, params }) =>
    webhookOf(await readWebhook(db, sealer, principal.tenantId, params.webhook_id), principal),
  );

  route(api, operations.patchWebhook, async ({ principal, params, body }) => {
    const { url, enabled, format, ...rest } = body;
    const before = await readWebhook(db, sealer, principal.tenantId, params.webhook_id);
    const current = before.format === "email" ? "standard" : before.format;
    const change: Partial<WebhookSettings> = {
      ...((url || format) && { format: formatOf(url || before.url, format ?? current) }),
      ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
      ...(url && { url: checkedUrl(url, settings) }),
      ...(typeof enabled === "boolean" && { enabled }),
    };
    const row = await changeWebhook(db, sealer, principal, params.webhook_id, change);
    db.changes.wakeWatchers();
    return webhookOf(row, principal);
  });

  route(api, operations.deleteWebhook, ({ principal, params }) => deleteWebhook(db, principal, params.webhook_id));

  route(api, operations.replaceWebhookSecret, async ({ principal, params }) => ({
    secret: await replaceWebhookSecret(db, sealer, principal, params.webhook_id),
  }));

  route(api, operations.testWebhook, async ({ principal, params }) => {
    const row = await addTestDelivery(db, principal, params.webhook_id);
    db.changes.wakeWatchers();
    return deliveryOf(row);
  });

  route(api, operations.listWebhookDeliveries, async ({ principal, params, query }) => {
    const { id } = await readWebhook(db, sealer, principal.tenantId, params.webhook_id);
    const limit = query.page_size;
    const before = query.cursor === undefined ? null : seqIn(query.cursor);
    const rows = await listDeliveries(db, id, { status: query.status ?? null, before, limit });
    const last = rows.length === limit ? rows.at(-1) : undefined;
    return { items: rows.map(deliveryOf), next_cursor: last === undefined ? null : String(last.seq) };
  });

  route(api, operations.redeliverWebhook, async ({ principal, params }) => {
    const row = await redeliver(db, principal, { webhookId: params.webhook_id, id: params.delivery_id });
    db.changes.wakeWatchers();
    return deliveryOf(row);
  });
}

/** What people want to hear of by default. Programs get everything. */
const alertTypes: EventType[] = ["alert.firing", "alert.resolved"];

const formatOf = (url: string, chosen: WebhookFormat | null = null): WebhookFormat =>
  url.startsWith("mailto:") ? "email" : (chosen ?? "standard");

function checkedMailbox(address: string, { mail }: ApiSettings): string {
  const refuse = (because: string) => errors.invalidField("url", because);
  const recipient = recipientOf(address);
  if (recipient === null) throw refuse("must be mailto: and one address, for example mailto:ops@example.org.");
  if (mail === null) throw refuse("needs a mail server. An operator can set PIERHEAD_SMTP_URL and PIERHEAD_SMTP_FROM.");
  if (!isAllowedRecipient(recipient, mail.domains)) {
    throw refuse("has a domain that this server sends no mail to. An operator can add it to PIERHEAD_SMTP_DOMAINS.");
  }
  return address;
}

/** Rejects a URL that can never be called. The address that a host name resolves to is checked with every delivery. */
function checkedUrl(text: string, settings: ApiSettings): string {
  if (text.startsWith("mailto:")) return checkedMailbox(text, settings);
  const { allowPrivateNetwork } = settings;
  const refuse = (because: string) => errors.invalidField("url", because);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol)) throw refuse("must be an http or https URL.");
  if (url.username !== "" || url.password !== "") throw refuse("must not have a user name or password.");
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  if (!allowPrivateNetwork && isIP(host) !== 0 && !isPublicAddress(host)) {
    throw refuse(`leads to ${host}, which is not a public address. An operator can allow private networks.`);
  }
  url.hash = "";
  return url.href;
}

function seqIn(cursor: string): number {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw errors.invalidField("cursor", "must be the next_cursor of an earlier page.");
}

/** Hides the path of the URL from readers: it may be a secret, as with webhooks of chat services. */
function webhookOf(row: WebhookRow, { role }: Principal): Webhook {
  const { id, format, description, types, deployment_ids, enabled, disabled_reason } = row;
  const hidden = format === "email" ? "mailto:" : `${new URL(row.url).origin}/`;
  const url = maySeeSecrets(role) ? row.url : hidden;
  return {
    id,
    url,
    format,
    description,
    types,
    deployment_ids,
    enabled,
    disabled_reason,
    failing_since: row.failing_since?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function deliveryOf(row: DeliveryRow): WebhookDelivery {
  const { id, webhook_id, type, status, attempts, duration_ms, error } = row;
  const { response_status, response_bytes, response_text } = row;
  return {
    id,
    webhook_id,
    type,
    status,
    attempts,
    duration_ms,
    response_status,
    response_bytes,
    response_text,
    error,
    event_id: row.event_id === null ? null : String(row.event_id),
    next_attempt_at: row.next_attempt_at?.toISOString() ?? null,
    last_attempt_at: row.last_attempt_at?.toISOString() ?? null,
    payload: JSON.parse(row.payload),
    created_at: row.created_at.toISOString(),
  };
}
