import {
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

export const organizationsTable = table("organizations", {
  id: uuid,
  name: text,
  plan: textOf<"cloud" | "self_hosted_enterprise">(),
  created_at: timestamp,
});

export const workspacesTable = table("workspaces", {
  id: uuid,
  organization_id: uuid,
  name: text,
  deployments_enabled: boolean,
  created_at: timestamp,
});

export const apiKeysTable = table("api_keys", {
  id: uuid,
  organization_id: uuid,
  /** null: a key of the organization. An operator's key has one only as the default workspace for requests that name none. */
  workspace_id: nullable(uuid),
  listener_id: nullable(uuid),
  name: text,
  role: textOf<"reader" | "agent" | "deployer" | "listener" | "admin">(),
  is_operator: boolean,
  /** An enrollment token of a listener: it can only be exchanged for the listener's key. */
  one_time: boolean,
  /** The key that allowed a command line to get this one, which ends with it. null: none did. */
  parent_id: nullable(uuid),
  /** The member on whose behalf a command line uses the key, which ends with the membership and with each change of its role. */
  member_id: nullable(uuid),
  prefix: text,
  /** SHA-256 of the whole key. */
  hash: bytea,
  created_at: timestamp,
  expires_at: nullable(timestamp),
  /** Final expiry of a key that its command line has not used yet. The first use copies it to `expires_at`. */
  expires_at_once_used: nullable(timestamp),
  revoked_at: nullable(timestamp),
  last_used_at: nullable(timestamp),
});

export const membersTable = table("members", {
  id: uuid,
  organization_id: uuid,
  workspace_id: nullable(uuid),
  /** In lower case. */
  email: text,
  name: nullable(text),
  role: textOf<"reader" | "deployer" | "admin">(),
  created_at: timestamp,
  updated_at: timestamp,
});

export const sessionsTable = table("sessions", {
  token_hash: bytea,
  api_key_id: nullable(uuid),
  member_email: nullable(text),
  created_at: timestamp,
  expires_at: timestamp,
});

export const deviceLoginsTable = table("device_logins", {
  id: uuid,
  device_hash: bytea,
  user_code: text,
  client_name: text,
  address: text,
  created_at: timestamp,
  expires_at: timestamp,
  status: textOf<"pending" | "allowed" | "refused">(),
  actor: nullable(text),
  parent_id: nullable(uuid),
  member_id: nullable(uuid),
  organization_id: nullable(uuid),
  workspace_id: nullable(uuid),
  role: nullable(text),
  is_operator: nullable(boolean),
  key_expires_at: nullable(timestamp),
});

export const signInsTable = table("sign_ins", {
  token_hash: bytea,
  expires_at: timestamp,
});

export const quotasTable = table("quotas", {
  tenant_id: uuid,
  deployments_max: nullable(integer),
  replicas_max: nullable(integer),
  build_minutes_max: nullable(integer),
  updated_at: timestamp,
});

export const buildUsageTable = table("build_usage", {
  tenant_id: uuid,
  month: text,
  build_ms: bigint,
});

export const auditLogTable = table("audit_log", {
  id: bigint,
  organization_id: uuid,
  tenant_id: nullable(uuid),
  actor: text,
  action: text,
  deployment_id: nullable(uuid),
  subject_id: nullable(uuid),
  subject_name: nullable(text),
  data: jsonb,
  created_at: timestamp,
});

export const idempotencyKeysTable = table("idempotency_keys", {
  scope_id: uuid,
  key: text,
  data_key_id: uuid,
  sealed: bytea,
  created_at: timestamp,
});
