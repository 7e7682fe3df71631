import type {
  AgentRef,
  DeploymentStatus,
  SecretReference,
  SourceConfig,
  SourceKind,
  SourceRevisionConfig,
} from "../contract/deployments/deployment.ts";
import type { Mode } from "./mode.ts";
import type { Sizes, Tiers } from "./tiers.ts";

/** What the rules need to know beside the request; read by the caller, so that the rules stay pure. */
export interface RuleContext {
  mode: Mode;
  /** May a repository URL name a path on this host? */
  allowLocalSources: boolean;
  /** Does the built-in listener run agents here? */
  hasBuiltinDataPlane: boolean;
  /** Listeners of the workspace, the built-in one not among them. Null namespaces: any. */
  listeners: readonly { id: string; k8sNamespaces: readonly string[] | null }[];
  /** `object_path` of the finished uploads of this deployment; at least the one the request names. */
  uploadedPaths: readonly string[];
  templateIds: readonly string[];
}

/** What one revision runs from; stored with it and never changed. */
export interface RevisionSettings {
  source: SourceKind;
  sourceConfig: SourceConfig;
  sourceRevisionConfig: SourceRevisionConfig;
  secretReferences: SecretReference[] | null;
  /** null: its type has one size, or its resource spec says it. */
  sizes: Sizes | null;
}

/** A deployment as the rules for changing it see it. */
export interface CurrentDeployment {
  id: string;
  name: string;
  status: DeploymentStatus;
  source: SourceKind;
  sourceConfig: SourceConfig;
  sourceRevisionConfig: SourceRevisionConfig;
  /** Branch whose pushes count, or the tag that is pinned; null for other sources than github. */
  trackedRef: string | null;
  secretNames: readonly string[];
  secretReferences: SecretReference[] | null;
  tiers: Tiers;
  /** Source of the newest revision; null before the first one. */
  latestRevisionSource: SourceKind | null;
  /** Serving URL as answers show it. */
  url: string | null;
}

/** A create request with every default filled in and every rule checked. */
export interface NewDeployment extends RevisionSettings {
  name: string;
  trackedRef: string | null;
  secrets: Record<string, string>;
  shareable: boolean;
  routeThroughGateway: boolean;
  agent: AgentRef | null;
  /** False while an image or archive is still to come: the first PATCH then makes the first revision. */
  createsRevision: boolean;
}

/** What a PATCH or a new revision makes of a deployment. */
export interface ChangedDeployment {
  /** The deployment's settings afterwards, complete. */
  sourceConfig: SourceConfig;
  sourceRevisionConfig: SourceRevisionConfig;
  trackedRef: string | null;
  secretReferences: SecretReference[] | null;
  tiers: Tiers;
  /** Replaces all secrets; null: unchanged. */
  secrets: Record<string, string> | null;
  /** The revision to make; null: none. */
  revision: RevisionSettings | null;
}

export const blankSourceConfig: Readonly<SourceConfig> = {
  integration_id: null,
  repo_url: null,
  deployment_type: null,
  build_on_push: null,
  custom_url: null,
  resource_spec: null,
  listener_id: null,
  listener_config: null,
  install_command: null,
  build_command: null,
  template_id: null,
  repo_branch: null,
};

export const blankSourceRevisionConfig: Readonly<SourceRevisionConfig> = {
  repo_ref: null,
  langgraph_config_path: null,
  framework_config_path: null,
  image_uri: null,
  source_tarball_path: null,
  repo_commit_sha: null,
  deepagents_version: null,
  tracked_packages: null,
};
