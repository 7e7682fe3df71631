import type { CodeHost } from "../../contract/integrations/integration.ts";
import {
  arrayOf,
  bigint,
  boolean,
  bytea,
  integer,
  jsonb,
  nullable,
  table,
  text,
  textOf,
  timestamp,
  uuid,
} from "../engine/table.ts";

export const integrationsTable = table("integrations", {
  id: uuid,
  tenant_id: uuid,
  host: textOf<CodeHost>(),
  name: text,
  installation_id: nullable(bigint),
  url: text,
  username: nullable(text),
  has_token: boolean,
  has_ssh_key: boolean,
  data_key_id: uuid,
  sealed: bytea,
  created_at: timestamp,
  updated_at: timestamp,
});

export const installationLinksTable = table("installation_links", {
  state_digest: bytea,
  tenant_id: uuid,
  organization_id: uuid,
  actor: text,
  return_to: nullable(text),
  created_at: timestamp,
  expires_at: timestamp,
});

export const githubAppTable = table("github_app", {
  id: uuid,
  is_only: boolean,
  app_id: text,
  name: text,
  url: text,
  page_url: text,
  has_webhook: boolean,
  data_key_id: uuid,
  sealed: bytea,
  actor: text,
  created_at: timestamp,
});

export const githubAppLinksTable = table("github_app_links", {
  state_digest: bytea,
  key_id: uuid,
  organization_id: uuid,
  actor: text,
  url: text,
  account: nullable(text),
  name: text,
  is_public: boolean,
  expires_at: timestamp,
});

export const pickerSessionsTable = table("picker_sessions", {
  id_digest: bytea,
  tenant_id: uuid,
  organization_id: uuid,
  installs: jsonb,
  return_to: nullable(text),
  expires_at: timestamp,
});

export const branchWatchesTable = table("branch_watches", {
  deployment_id: uuid,
  tenant_id: uuid,
  repo_key: text,
  ref: text,
  commit_sha: nullable(text),
  pushed: arrayOf(text),
  told: bigint,
  look_at: timestamp,
  looked_at: timestamp,
  attempts: integer,
  last_error: nullable(text),
});

export const hostDeliveriesTable = table("host_deliveries", {
  digest: bytea,
  received_at: timestamp,
});

export const gitSettingsTable = table("git_settings", {
  deployment_id: uuid,
  tenant_id: uuid,
  include_paths: nullable(arrayOf(text)),
  exclude_paths: nullable(arrayOf(text)),
  preview: nullable(jsonb),
  updated_at: timestamp,
});

export const commitReportsTable = table("commit_reports", {
  revision_id: uuid,
  deployment_id: uuid,
  reported: nullable(text),
  external_id: nullable(text),
  attempts: integer,
  retry_at: nullable(timestamp),
  is_settled: boolean,
});

export const previewsTable = table("previews", {
  parent_id: uuid,
  number: integer,
  tenant_id: uuid,
  deployment_id: nullable(uuid),
  head_sha: text,
  head_at: timestamp,
  comment_id: nullable(bigint),
  commented: nullable(text),
  attempts: integer,
  retry_at: nullable(timestamp),
});
