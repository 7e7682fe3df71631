import type { AlertKind, AlertState, DeploymentAlertKind } from "../../contract/alerts/alert.ts";
import type { Certificate } from "../../domain/subject-alerts.ts";
import { bigint, boolean, double, jsonbOf, nullable, table, text, textOf, timestamp, uuid } from "../engine/table.ts";

export const alertRulesTable = table("alert_rules", {
  tenant_id: uuid,
  kind: textOf<AlertKind>(),
  enabled: boolean,
  threshold: nullable(double),
  updated_at: timestamp,
});

export const deploymentAlertRulesTable = table("deployment_alert_rules", {
  deployment_id: uuid,
  kind: textOf<DeploymentAlertKind>(),
  enabled: nullable(boolean),
  threshold: nullable(double),
  updated_at: timestamp,
});

export const alertMutesTable = table("alert_mutes", {
  deployment_id: uuid,
  until: timestamp,
});

export const subjectMutesTable = table("subject_mutes", {
  tenant_id: uuid,
  subject_id: text,
  until: timestamp,
});

export const alertsTable = table("alerts", {
  id: uuid,
  tenant_id: uuid,
  deployment_id: nullable(uuid),
  kind: textOf<AlertKind>(),
  state: textOf<AlertState>(),
  message: text,
  notified: boolean,
  since: timestamp,
  resolved_at: nullable(timestamp),
  subject_id: nullable(text),
  subject: nullable(text),
});

export const serverFactsTable = table("server_facts", {
  server: text,
  name: text,
  measured_at: timestamp,
  disk_size_bytes: bigint,
  disk_free_bytes: bigint,
  certificates: jsonbOf<Certificate[]>(),
});
