import type { EventType } from "../../contract/logs/event.ts";
import type { WebhookFormat } from "../../contract/webhooks/webhook.ts";
import {
  arrayOf,
  bigint,
  boolean,
  bytea,
  integer,
  nullable,
  table,
  text,
  textOf,
  timestamp,
  uuid,
} from "../engine/table.ts";

export const webhooksTable = table("webhooks", {
  id: uuid,
  tenant_id: uuid,
  origin: text,
  description: nullable(text),
  types: nullable(arrayOf(textOf<EventType>())),
  deployment_ids: nullable(arrayOf(uuid)),
  enabled: boolean,
  disabled_reason: nullable(text),
  format: textOf<WebhookFormat>(),
  data_key_id: uuid,
  sealed: bytea,
  after_event: bigint,
  failing_since: nullable(timestamp),
  created_at: timestamp,
  updated_at: timestamp,
});

export const webhookPositionTable = table("webhook_position", {
  singleton: boolean,
  event_id: bigint,
});

export const webhookDeliveriesTable = table("webhook_deliveries", {
  id: uuid,
  seq: bigint,
  webhook_id: uuid,
  tenant_id: uuid,
  event_id: nullable(bigint),
  type: text,
  payload: text,
  status: textOf<"pending" | "delivered" | "failed">(),
  attempts: integer,
  next_attempt_at: nullable(timestamp),
  lease_owner: nullable(text),
  lease_until: nullable(timestamp),
  last_attempt_at: nullable(timestamp),
  duration_ms: nullable(integer),
  response_status: nullable(integer),
  response_bytes: nullable(integer),
  response_text: nullable(text),
  error: nullable(text),
  created_at: timestamp,
});
