import type { ColumnType, Generated } from "kysely";
import type { CodeHost } from "../../contract/integrations/integration.ts";

/** The tables of code hosts and of the tracing back end; see `schema.ts`. */
export interface IntegrationTables {
  integrations: IntegrationTable;
  installation_links: InstallationLinkTable;
  github_app: GithubAppTable;
  github_app_links: GithubAppLinkTable;
  picker_sessions: PickerSessionTable;
  branch_watches: BranchWatchTable;
  host_deliveries: HostDeliveryTable;
  git_settings: GitSettingTable;
  commit_reports: CommitReportTable;
  previews: PreviewTable;
  tracing_projects: TracingProjectTable;
}

type Json<T = unknown> = ColumnType<T, string, string>;

interface IntegrationTable {
  id: string;
  tenant_id: string;
  host: CodeHost;
  name: string;
  installation_id: number | null;
  url: string;
  username: string | null;
  has_token: Generated<boolean>;
  has_ssh_key: Generated<boolean>;
  data_key_id: string;
  sealed: Buffer;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

interface InstallationLinkTable {
  state_digest: Buffer;
  tenant_id: string;
  organization_id: string;
  actor: string;
  return_to: string | null;
  created_at: Generated<Date>;
  expires_at: Date;
}

interface GithubAppTable {
  id: string;
  is_only: Generated<boolean>;
  app_id: string;
  name: string;
  url: string;
  page_url: string;
  has_webhook: boolean;
  data_key_id: string;
  sealed: Buffer;
  actor: string;
  created_at: Generated<Date>;
}

interface GithubAppLinkTable {
  state_digest: Buffer;
  key_id: string;
  organization_id: string;
  actor: string;
  url: string;
  account: string | null;
  name: string;
  is_public: boolean;
  expires_at: Date;
}

interface PickerSessionTable {
  id_digest: Buffer;
  tenant_id: string;
  organization_id: string;
  installs: Json;
  return_to: string | null;
  expires_at: Date;
}

interface BranchWatchTable {
  deployment_id: string;
  tenant_id: string;
  repo_key: string;
  ref: string;
  commit_sha: string | null;
  pushed: string[];
  told: Generated<number>;
  look_at: Date;
  looked_at: Generated<Date>;
  attempts: Generated<number>;
  last_error: string | null;
}

interface HostDeliveryTable {
  digest: Buffer;
  received_at: Generated<Date>;
}

interface GitSettingTable {
  deployment_id: string;
  tenant_id: string;
  include_paths: string[] | null;
  exclude_paths: string[] | null;
  preview: Json | null;
  updated_at: Generated<Date>;
}

interface CommitReportTable {
  revision_id: string;
  deployment_id: string;
  reported: string | null;
  external_id: string | null;
  attempts: Generated<number>;
  retry_at: Date | null;
  is_settled: Generated<boolean>;
}

interface PreviewTable {
  parent_id: string;
  number: number;
  tenant_id: string;
  deployment_id: string | null;
  head_sha: string;
  head_at: Generated<Date>;
  comment_id: number | null;
  commented: string | null;
  attempts: Generated<number>;
  retry_at: Date | null;
}

interface TracingProjectTable {
  id: string;
  tenant_id: string;
  name: string;
  project: string;
  deployment_id: string | null;
  status: "wanted" | "ready";
  external_id: string | null;
  attempts: Generated<number>;
  retry_at: Date | null;
  last_error: string | null;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}
