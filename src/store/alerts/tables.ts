import type { AlertKind, AlertState } from "../../contract/alerts/alert.ts";
import { boolean, double, nullable, table, text, textOf, timestamp, uuid } from "../engine/table.ts";

export const alertRulesTable = table("alert_rules", {
  tenant_id: uuid,
  kind: textOf<AlertKind>(),
  enabled: boolean,
  threshold: nullable(double),
  updated_at: timestamp,
});

export const alertMutesTable = table("alert_mutes", {
  deployment_id: uuid,
  until: timestamp,
});

export const alertsTable = table("alerts", {
  id: uuid,
  tenant_id: uuid,
  deployment_id: uuid,
  kind: textOf<AlertKind>(),
  state: textOf<AlertState>(),
  message: text,
  notified: boolean,
  since: timestamp,
  resolved_at: nullable(timestamp),
});
