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

/** Facts that the rules need besides the request. The caller reads them, so that the rules stay pure. */
export interface RuleContext {
  mode: Mode;
  /** Host of the server's public address, which no deployment may have as its own. Null: the server has no public address. */
  ownHost: string | null;
  /** Whether a repository URL may name a path on this host. */
  allowLocalSources: boolean;
  /** Whether the built-in listener runs agents here. */
  hasBuiltinDataPlane: boolean;
  /** Listeners of the workspace, without the built-in one. Null namespaces: any. */
  listeners: readonly { id: string; k8sNamespaces: readonly string[] | null; buildsImages: boolean }[];
  /** What the operator of the deployment's listener allows in pods beyond the defaults (`podRights` of the contract). */
  podRights: readonly string[];
  /** `object_path` of the finished uploads of this deployment; at least the one the request names. */
  uploadedPaths: readonly string[];
  templateIds: readonly string[];
}

/** The settings that one revision runs with; stored with it and never changed. */
export interface RevisionSettings {
  source: SourceKind;
  sourceConfig: SourceConfig;
  sourceRevisionConfig: SourceRevisionConfig;
  secretReferences: SecretReference[] | null;
  /** null: its type has one size, or its resource spec defines it. */
  sizes: Sizes | null;
}

/** A deployment in the form that the rules for changes use. */
export interface CurrentDeployment {
  id: string;
  name: string;
  status: DeploymentStatus;
  source: SourceKind;
  sourceConfig: SourceConfig;
  sourceRevisionConfig: SourceRevisionConfig;
  /** Branch whose pushes are deployed, or the pinned tag; null for other sources than github. */
  trackedRef: string | null;
  secretNames: readonly string[];
  secretReferences: SecretReference[] | null;
  tiers: Tiers;
  /** Source of the newest revision; null before the first one. */
  latestRevisionSource: SourceKind | null;
  /** Serving URL as responses show it. */
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
  /** false while an image or archive is missing; the first PATCH with it then creates the first revision. */
  createsRevision: boolean;
}

/** The result of a PATCH or a new revision. */
export interface ChangedDeployment {
  /** The complete settings of the deployment afterwards. */
  sourceConfig: SourceConfig;
  sourceRevisionConfig: SourceRevisionConfig;
  trackedRef: string | null;
  secretReferences: SecretReference[] | null;
  tiers: Tiers;
  /** Replaces all secrets; null: unchanged. */
  secrets: Record<string, string> | null;
  /** The revision to create; null: none. */
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
  engine: null,
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
