import type { ColumnType, Generated, GeneratedAlways } from "kysely";
import type {
  DeploymentStatus,
  SourceConfig,
  SourceKind,
  SourceRevisionConfig,
} from "../../contract/deployments/deployment.ts";
import type { RevisionStatus, RevisionTrigger } from "../../contract/revisions/revision.ts";
import type { IntegrationTables } from "./schema-integrations.ts";
import type { OAuthTables } from "./schema-oauth.ts";
import type { WebhookDeliveryTable, WebhookPositionTable, WebhookTable } from "./schema-webhooks.ts";

/**
 * Every table of `migrations/`, column by column; a test compares the names with a migrated database.
 * bigint arrives as number (identities and sizes stay far below 2^53), timestamptz as Date, jsonb parsed; jsonb is
 * written as text.
 */
export interface Database extends OAuthTables, IntegrationTables {
  organizations: OrganizationTable;
  workspaces: WorkspaceTable;
  api_keys: ApiKeyTable;
  listeners: ListenerTable;
  data_keys: DataKeyTable;
  deployments: DeploymentTable;
  secret_sets: SecretSetTable;
  artifacts: ArtifactTable;
  revisions: RevisionTable;
  builds: BuildTable;
  uploads: UploadTable;
  deployment_databases: DeploymentDatabaseTable;
  idempotency_keys: IdempotencyKeyTable;
  sessions: SessionTable;
  sign_ins: SignInTable;
  assignments: AssignmentTable;
  observations: ObservationTable;
  reconcile_queue: ReconcileQueueTable;
  leases: LeaseTable;
  clock: ClockTable;
  log_entries: LogEntryTable;
  metric_minutes: MetricMinuteTable;
  events: EventTable;
  webhooks: WebhookTable;
  webhook_position: WebhookPositionTable;
  webhook_deliveries: WebhookDeliveryTable;
  audit_log: AuditLogTable;
  members: MemberTable;
  tag_keys: TagKeyTable;
  tag_values: TagValueTable;
  deployment_tags: DeploymentTagTable;
  quotas: QuotaTable;
  build_usage: BuildUsageTable;
}

type Json<T = unknown> = ColumnType<T, string, string>;
type GeneratedJson<T = unknown> = ColumnType<T, string | undefined, string>;

interface OrganizationTable {
  id: string;
  name: string;
  plan: "cloud" | "self_hosted_enterprise";
  created_at: Generated<Date>;
}

interface WorkspaceTable {
  id: string;
  organization_id: string;
  name: string;
  deployments_enabled: Generated<boolean>;
  created_at: Generated<Date>;
}

interface ApiKeyTable {
  id: string;
  organization_id: string;
  workspace_id: string | null;
  listener_id: string | null;
  name: string;
  role: "reader" | "agent" | "deployer" | "listener" | "admin";
  is_operator: Generated<boolean>;
  one_time: Generated<boolean>;
  prefix: string;
  hash: Buffer;
  created_at: Generated<Date>;
  expires_at: Date | null;
  revoked_at: Date | null;
  last_used_at: Date | null;
}

interface ListenerTable {
  id: string;
  tenant_id: string | null;
  builtin: Generated<boolean>;
  compute_type: string;
  compute_id: string;
  compute_config: GeneratedJson;
  facts: GeneratedJson;
  version: string | null;
  rv: Generated<number>;
  epoch: Generated<number>;
  session_id: string | null;
  instance_id: string | null;
  lease_until: Date | null;
  last_seen_at: Date | null;
  drain: Generated<boolean>;
  log_level: string | null;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

interface DataKeyTable {
  id: string;
  wrapped: Buffer;
  master_key_id: string;
  created_at: Generated<Date>;
  retired_at: Date | null;
}

interface DeploymentTable {
  id: string;
  seq: GeneratedAlways<number>;
  tenant_id: string;
  listener_id: string;
  name: string;
  slug: string;
  display_name: string | null;
  source: SourceKind;
  source_config: Json<SourceConfig>;
  source_revision_config: Json<SourceRevisionConfig>;
  tracked_ref: string | null;
  tracked_packages: Json<string[] | null> | null;
  secret_set_id: string | null;
  secret_references: Json | null;
  status: DeploymentStatus;
  status_since: Generated<Date>;
  used_at: Date | null;
  latest_revision_id: string | null;
  active_revision_id: string | null;
  image_version: string | null;
  shareable: Generated<boolean>;
  route_through_gateway: Generated<boolean>;
  agent_id: string | null;
  agent_environment: string | null;
  deployment_tier: string | null;
  compute_tier: string | null;
  database_tier: string | null;
  is_preview: Generated<boolean>;
  parent_deployment_id: string | null;
  tracer_session_id: string | null;
  delete_tracing_project: Generated<boolean>;
  force_delete: Generated<boolean>;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

interface SecretSetTable {
  id: string;
  tenant_id: string;
  deployment_id: string;
  data_key_id: string;
  sealed: Buffer;
  created_at: Generated<Date>;
}

interface ArtifactTable {
  id: string;
  tenant_id: string;
  key: string;
  manifest: Json;
  created_at: Generated<Date>;
  last_used_at: Generated<Date>;
}

interface RevisionTable {
  id: string;
  seq: GeneratedAlways<number>;
  tenant_id: string;
  deployment_id: string;
  status: RevisionStatus;
  status_message: string | null;
  status_since: Generated<Date>;
  deadline_at: Date | null;
  source: SourceKind;
  source_config: Json<SourceConfig>;
  source_revision_config: Json<SourceRevisionConfig>;
  secret_set_id: string | null;
  secret_references: Json | null;
  sizes: Json | null;
  artifact_id: string | null;
  artifact_key: string | null;
  redeploy_of: string | null;
  triggered_by: Generated<RevisionTrigger>;
  image_version: string | null;
  tracked_packages: Json<string[] | null> | null;
  traceparent: string | null;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

interface BuildTable {
  revision_id: string;
  deployment_id: string;
  status: "running" | "succeeded" | "failed" | "cancelled";
  owner: string;
  lease_until: Date;
  pid: number | null;
  pid_started: string | null;
  attempts: Generated<number>;
  result: Json | null;
  started_at: Generated<Date>;
  finished_at: Date | null;
}

interface UploadTable {
  id: string;
  tenant_id: string;
  deployment_id: string;
  object_path: string;
  sha256: string | null;
  size_bytes: number | null;
  expires_at: Date;
  finished_at: Date | null;
  created_at: Generated<Date>;
}

interface IdempotencyKeyTable {
  scope_id: string;
  key: string;
  data_key_id: string;
  sealed: Buffer;
  created_at: Generated<Date>;
}

interface SessionTable {
  token_hash: Buffer;
  api_key_id: string | null;
  member_email: string | null;
  created_at: Generated<Date>;
  expires_at: Date;
}

interface SignInTable {
  token_hash: Buffer;
  expires_at: Date;
}

interface AssignmentTable {
  deployment_id: string;
  tenant_id: string;
  listener_id: string;
  rv: number;
  generation: number;
  op: "apply" | "delete";
  spec: Json;
  updated_at: Generated<Date>;
}

interface ObservationTable {
  deployment_id: string;
  listener_id: string;
  epoch: number;
  seq: number;
  generation: number;
  report: Json;
  observed_at: Generated<Date>;
}

interface ReconcileQueueTable {
  deployment_id: string;
  run_at: Date | null;
  generation: Generated<number>;
  attempts: Generated<number>;
  lease_owner: string | null;
  lease_until: Date | null;
  outcomes: GeneratedJson;
}

interface ClockTable {
  mark: Date;
  worked_at: Generated<Date>;
  resumed_at: Date | null;
}

interface LeaseTable {
  name: string;
  owner: string;
  lease_until: Date;
}

interface LogEntryTable {
  id: GeneratedAlways<number>;
  tenant_id: string;
  deployment_id: string;
  revision_id: string;
  kind: "build" | "deploy";
  replica_id: string | null;
  stream: string;
  level: number;
  logged_at: Date;
  message: string;
  line_key: string | null;
}

interface EventTable {
  id: GeneratedAlways<number>;
  tenant_id: string;
  deployment_id: string | null;
  revision_id: string | null;
  kind: string;
  data: GeneratedJson;
  created_at: Generated<Date>;
}

interface AuditLogTable {
  id: GeneratedAlways<number>;
  organization_id: string;
  tenant_id: string | null;
  actor: string;
  action: string;
  deployment_id: string | null;
  subject_id: string | null;
  subject_name: string | null;
  data: GeneratedJson;
  created_at: Generated<Date>;
}

interface MemberTable {
  id: string;
  organization_id: string;
  workspace_id: string | null;
  email: string;
  name: string | null;
  role: "reader" | "deployer" | "admin";
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

interface TagKeyTable {
  id: string;
  tenant_id: string;
  name: string;
  description: string | null;
  created_at: Generated<Date>;
}

interface TagValueTable {
  id: string;
  tag_key_id: string;
  name: string;
  created_at: Generated<Date>;
}

interface DeploymentTagTable {
  deployment_id: string;
  tag_value_id: string;
  /** Of the deployment, written by the database. */
  created_at: Generated<Date>;
  seq: Generated<number>;
}

interface QuotaTable {
  tenant_id: string;
  deployments_max: number | null;
  replicas_max: number | null;
  build_minutes_max: number | null;
  updated_at: Generated<Date>;
}

interface BuildUsageTable {
  tenant_id: string;
  month: string;
  build_ms: Generated<number>;
}

interface DeploymentDatabaseTable {
  deployment_id: string;
  tenant_id: string;
  postgres: "none" | "shared" | "custom";
  redis: "none" | "shared" | "custom";
  data_key_id: string;
  sealed: Buffer;
  created_at: Generated<Date>;
}

interface MetricMinuteTable {
  deployment_id: string;
  at: Date;
  replicas: number;
  cpu_cores: number | null;
  memory_mib: number | null;
  restarts: number;
  requests: number;
  errors: number;
  latency_counts: number[];
  sampled_at: Date | null;
}
