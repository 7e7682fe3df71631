import type { Generated, GeneratedAlways } from "kysely";

export interface WebhookTable {
  id: string;
  tenant_id: string;
  origin: string;
  description: string | null;
  types: string[] | null;
  deployment_ids: string[] | null;
  enabled: Generated<boolean>;
  disabled_reason: string | null;
  data_key_id: string;
  sealed: Buffer;
  after_event: number;
  failing_since: Date | null;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

export interface WebhookPositionTable {
  singleton: Generated<boolean>;
  event_id: number;
}

export interface WebhookDeliveryTable {
  id: string;
  seq: GeneratedAlways<number>;
  webhook_id: string;
  tenant_id: string;
  event_id: number | null;
  type: string;
  payload: string;
  status: "pending" | "delivered" | "failed";
  attempts: Generated<number>;
  next_attempt_at: Date | null;
  lease_owner: string | null;
  lease_until: Date | null;
  last_attempt_at: Date | null;
  duration_ms: number | null;
  response_status: number | null;
  response_text: string | null;
  error: string | null;
  created_at: Generated<Date>;
}
