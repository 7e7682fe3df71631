import { type Static, Type } from "typebox";
import {
  createDeploymentExample,
  deletedDeploymentsExample,
  deploymentExample,
  patchDeploymentExample,
} from "../examples.ts";
import { offsetQuery, resourcePage, SortOrder } from "../page.ts";
import { given, literals, nullable, timestamp, uuid } from "../schema.ts";
import { deploymentStatuses } from "./deployment-statuses.ts";
import { ResourceSpec } from "./resource-spec.ts";

/** Where the agent server comes from (contract 2.1). */
export const SourceKind = literals([
  "github",
  "external_docker",
  "internal_docker",
  "internal_source",
  "internal_template",
]);
export type SourceKind = Static<typeof SourceKind>;

/** Sizes and idle behaviour of the sources we build ourselves (contract 6.1). */
export const DeploymentType = literals(["dev_free", "dev", "prod", "dev_zero", "dev_free_zero"]);
export type DeploymentType = Static<typeof DeploymentType>;

/** Contract 5.1. The moves between them stand in `domain/deployment-status.ts`. */
export const DeploymentStatus = literals(deploymentStatuses);
export type DeploymentStatus = Static<typeof DeploymentStatus>;

const tiers = ["SERVERLESS_S", "SERVERLESS_M", "SERVERLESS_L", "DEDICATED_S", "DEDICATED_M", "DEDICATED_L"] as const;

/** Size of a whole deployment (contract 6.1). */
export const DeploymentTier = literals(tiers);
export type DeploymentTier = Static<typeof DeploymentTier>;

/** Size of a part of one: its runtime or its database. */
export const Size = literals(["S", "M", "L"]);
export type Size = Static<typeof Size>;

/** A size as requests may name it: by its letter or by the tier that ends in it. */
export const SizeName = literals(["S", "M", "L", ...tiers]);
export type SizeName = Static<typeof SizeName>;

export const ListenerConfig = Type.Object(
  { k8s_namespace: given(Type.String(), "One of the listener's namespaces; the only one when absent.") },
  { $id: "ListenerConfig" },
);
export type ListenerConfig = Static<typeof ListenerConfig>;

const sourceConfigFields = {
  integration_id: nullable(uuid(), "Code-host account that reads a private repository (github)."),
  repo_url: nullable(Type.String(), "Git URL of the repository (github). In a change, another one is read first."),
  deployment_type: nullable(DeploymentType, "Fixed at creation. Default prod; must be null for external_docker."),
  build_on_push: nullable(Type.Boolean(), "A push to the tracked branch makes a revision (github)."),
  custom_url: nullable(
    Type.String(),
    'Serving URL; settable only for external_docker, filled in otherwise. In a change, "" takes an own one away.',
  ),
  resource_spec: nullable(ResourceSpec, "Resources; external_docker only. Replaced as a whole."),
  listener_id: nullable(uuid(), "Data plane that runs it; null is the built-in one (external_docker)."),
  listener_config: nullable(ListenerConfig),
  install_command: nullable(Type.String(), "Runs at the repository root before the build; JavaScript projects."),
  build_command: nullable(Type.String(), "Runs where the config file lies; JavaScript projects."),
  template_id: nullable(Type.String(), "Template of this server's catalogue (internal_template)."),
};

/** Source settings as they are stored and answered: every key present (contract 2.2). */
export const SourceConfig = Type.Object(
  { ...sourceConfigFields, repo_branch: nullable(Type.String(), "The tracked branch; answers only.") },
  { $id: "SourceConfig" },
);
export type SourceConfig = Static<typeof SourceConfig>;

/** Source settings as a request may send them; null equals absent. */
export const SourceConfigInput = Type.Partial(Type.Object(sourceConfigFields), { $id: "SourceConfigInput" });
export type SourceConfigInput = Static<typeof SourceConfigInput>;

const configPath =
  "Config file, relative to the repository or archive root; may contain blanks (github, internal_source).";

const sourceRevisionConfigFields = {
  repo_ref: nullable(Type.String(), "Branch name, `refs/tags/<tag>`, or a commit hash (github)."),
  langgraph_config_path: nullable(Type.String(), configPath),
  framework_config_path: nullable(Type.String(), "Same as langgraph_config_path, which may be sent instead."),
  image_uri: nullable(Type.String(), "Docker image reference, by tag or digest (external_docker, internal_docker)."),
  source_tarball_path: nullable(
    Type.String(),
    "`object_path` of a finished upload of this deployment (internal_source).",
  ),
};

/** The settings of one revision as they are stored and answered: every key present (contract 2.3). */
export const SourceRevisionConfig = Type.Object(
  {
    ...sourceRevisionConfigFields,
    repo_commit_sha: nullable(Type.String(), "Commit that repo_ref meant when the revision was made."),
    deepagents_version: nullable(Type.String()),
    tracked_packages: nullable(Type.Array(Type.String()), "`<package>:<version>` each."),
  },
  { $id: "SourceRevisionConfig" },
);
export type SourceRevisionConfig = Static<typeof SourceRevisionConfig>;

/** Revision settings as a request may send them; null equals absent. */
export const SourceRevisionConfigInput = Type.Partial(Type.Object(sourceRevisionConfigFields), {
  $id: "SourceRevisionConfigInput",
});
export type SourceRevisionConfigInput = Static<typeof SourceRevisionConfigInput>;

export const Secret = Type.Object(
  { name: Type.String(), value: Type.String({ description: "Empty for callers who may only read." }) },
  { $id: "Secret" },
);
export type Secret = Static<typeof Secret>;

export const SecretReference = Type.Object(
  {
    name: Type.String({ description: "Environment variable to set." }),
    secret_name: Type.String({ description: "Kubernetes Secret in the deployment's namespace." }),
    secret_key: Type.String({ description: "Key inside that Secret." }),
  },
  { $id: "SecretReference" },
);
export type SecretReference = Static<typeof SecretReference>;

export const AgentEnvironment = literals(["development", "staging", "production"]);
export type AgentEnvironment = Static<typeof AgentEnvironment>;

export const AgentRef = Type.Object({ agent_id: uuid(), environment: AgentEnvironment }, { $id: "AgentRef" });
export type AgentRef = Static<typeof AgentRef>;

/** A named agent server that a workspace wants to run (contract 2.1). */
export const Deployment = Type.Object(
  {
    id: uuid(),
    tenant_id: uuid("Workspace that owns it."),
    name: Type.String({ description: "Unique in the workspace; cannot change." }),
    display_name: nullable(Type.String()),
    source: SourceKind,
    source_config: SourceConfig,
    source_revision_config: SourceRevisionConfig,
    secrets: Type.Array(Secret),
    secret_references: nullable(Type.Array(SecretReference)),
    created_at: timestamp(),
    updated_at: timestamp(),
    status: DeploymentStatus,
    latest_revision_id: nullable(uuid(), "Newest revision in any state; null before the first one."),
    active_revision_id: nullable(uuid(), "The revision that serves; null until one was deployed."),
    image_version: nullable(Type.String(), "Version of the agent server in the active revision."),
    url: nullable(Type.String(), "Serving URL; same value as source_config.custom_url."),
    tracer_session_id: nullable(uuid()),
    shareable: Type.Boolean(),
    route_through_gateway: Type.Boolean(),
    is_preview: Type.Boolean({ description: "Made for a pull request." }),
    is_managed_deep_agent: Type.Boolean(),
    agent: nullable(AgentRef),
    deployment_tier: nullable(DeploymentTier, "Size of the whole; null for types of one size."),
    compute_tier: nullable(Size, "Size of the runtime, where it differs from the tier."),
    database_tier: nullable(Size, "Size of the database, where it differs from the tier."),
    tracked_packages: nullable(Type.Array(Type.String())),
    parent_deployment_id: nullable(uuid(), "The deployment a preview belongs to."),
  },
  {
    $id: "Deployment",
    description: "A named agent server: what should run, and the revisions that make it run.",
    examples: [deploymentExample],
  },
);
export type Deployment = Static<typeof Deployment>;

export const DeploymentPage = resourcePage(Deployment, "DeploymentPage");
export type DeploymentPage = Static<typeof DeploymentPage>;

export const DeploymentPath = Type.Object({ deployment_id: uuid("Deployment of your workspace.") });
export type DeploymentPath = Static<typeof DeploymentPath>;

/** D1. An empty text means no filter; unknown statuses and tag values match nothing. */
export const DeploymentSort = literals(["created_at", "updated_at", "name", "status"]);
export type DeploymentSort = Static<typeof DeploymentSort>;

export const ListDeploymentsQuery = Type.Object({
  ...offsetQuery,
  sort_by: Type.Optional(
    literals(DeploymentSort.enum, { description: "Default: an exact hit of the name, then the newest first." }),
  ),
  sort_order: Type.Optional(
    literals(SortOrder.enum, { description: "Default: desc for times, asc for texts. Alone it is of `created_at`." }),
  ),
  name_contains: Type.Optional(Type.String({ description: "Part of the name, in any case. Exact hits come first." })),
  name: Type.Optional(Type.String({ description: "Exact name." })),
  status: Type.Optional(Type.String({ description: "A deployment status; an unknown one gives an empty page." })),
  remote_reconciled: Type.Optional(
    Type.Boolean({ description: "true: run by a remote listener; false: by the built-in one." }),
  ),
  tag_value_ids: Type.Optional(
    Type.String({
      description:
        "Tag value ids, separated by commas. Values of one tag are alternatives, different tags must all fit.",
    }),
  ),
  image_version: Type.Optional(Type.String({ description: "Exact." })),
  deployment_type: Type.Optional(literals(DeploymentType.enum, { description: "Exact." })),
  deployment_ids: Type.Optional(Type.String({ description: "Deployment ids, separated by commas." })),
  url: Type.Optional(Type.String({ description: "Exact serving URL." })),
  agent_id: Type.Optional(uuid("Agent that deployments were made for.")),
  agent_environment: Type.Optional(literals(AgentEnvironment.enum, { description: "Environment of that agent." })),
});
export type ListDeploymentsQuery = Static<typeof ListDeploymentsQuery>;

/** D2. Which field a source needs or refuses stands in `domain/source-rules.ts`. */
export const CreateDeployment = Type.Object(
  {
    name: given(Type.String({ minLength: 1 }), "Required unless `agent` is given.", { requiredUnless: "agent" }),
    source: SourceKind,
    source_config: SourceConfigInput,
    source_revision_config: SourceRevisionConfigInput,
    secrets: given(Type.Array(Secret), "Environment of the agent server, sealed at rest. Default []."),
    secret_references: given(Type.Array(SecretReference), "external_docker only."),
    shareable: given(Type.Boolean(), "Default false."),
    route_through_gateway: given(Type.Boolean(), "Default false."),
    agent: given(AgentRef),
  },
  { $id: "CreateDeployment", examples: [createDeploymentExample] },
);
export type CreateDeployment = Static<typeof CreateDeployment>;

/** Source of the one revision that a PATCH makes, when it differs from the deployment's. */
export const RevisionSource = literals(["github", "internal_docker", "internal_source"]);
export type RevisionSource = Static<typeof RevisionSource>;

/** D6. Null and absent leave a field as it is; `secrets: []` does too. */
export const PatchDeployment = Type.Object(
  {
    name: given(Type.String(), "Cannot change; the present value is accepted."),
    source: given(Type.String(), "Cannot change; the present value is accepted."),
    revision_source: given(RevisionSource),
    source_config: given(SourceConfigInput, "Merged field by field."),
    source_revision_config: given(SourceRevisionConfigInput, "Merged; a non-null field makes a revision."),
    secrets: given(Type.Array(Secret), "Replaces all secrets; [] leaves them as they are."),
    secret_references: given(Type.Array(SecretReference), "Replaces all references; [] clears them."),
    display_name: given(Type.String({ minLength: 1 })),
    tracked_repo_ref: given(Type.String({ minLength: 1 }), "Moves the tracked branch without a revision."),
    deployment_tier: given(DeploymentTier),
    route_through_gateway: given(Type.Boolean()),
    shareable: given(Type.Boolean()),
    tracked_packages: given(
      Type.Array(Type.String({ pattern: "^[^\\s:]+:[^\\s:][^:]*$" })),
      "`<package>:<version>` each, a version or what is asked of it; belongs to the revision this call makes.",
    ),
  },
  { $id: "PatchDeployment", examples: [patchDeploymentExample] },
);
export type PatchDeployment = Static<typeof PatchDeployment>;

/** D8. */
export const PatchDeploymentTier = Type.Object(
  { deployment_tier: DeploymentTier },
  {
    $id: "PatchDeploymentTier",
    examples: [{ deployment_tier: "DEDICATED_M" }],
  },
);
export type PatchDeploymentTier = Static<typeof PatchDeploymentTier>;

/** D9. At least one of them. */
export const PatchResourceTiers = Type.Object(
  { compute_tier: given(SizeName), database_tier: given(SizeName, "Dedicated deployments only.") },
  { $id: "PatchResourceTiers", examples: [{ compute_tier: "L", database_tier: "M" }] },
);
export type PatchResourceTiers = Static<typeof PatchResourceTiers>;

/** Deployments that one call can delete (contract 4.7). */
export const bulkDeleteMax = 100;

/** D7. */
export const DeleteDeploymentQuery = Type.Object({
  delete_tracing_project: Type.Boolean({
    default: false,
    description: "Also delete the tracing project of that name.",
  }),
  force: Type.Boolean({
    default: false,
    description: "Only while it is being deleted: forget it without waiting for its data plane.",
  }),
});
export type DeleteDeploymentQuery = Static<typeof DeleteDeploymentQuery>;

/** D3. */
export const DeleteDeploymentsQuery = Type.Object({
  deployment_ids: Type.Array(uuid(), {
    minItems: 1,
    maxItems: bulkDeleteMax,
    description: "Repeated, or separated by commas.",
  }),
  ...DeleteDeploymentQuery.properties,
});
export type DeleteDeploymentsQuery = Static<typeof DeleteDeploymentsQuery>;

/** What became of each of several deletes. */
export const DeletedDeployments = Type.Object(
  {
    deleted: Type.Array(uuid(), { description: "Accepted; they answer 404 once everything of theirs is gone." }),
    failed: Type.Array(
      Type.Object({
        deployment_id: uuid(),
        status_code: Type.Integer({ description: "What deleting this one alone would have answered." }),
        detail: Type.String(),
      }),
    ),
  },
  { $id: "DeletedDeployments", examples: [deletedDeploymentsExample] },
);
export type DeletedDeployments = Static<typeof DeletedDeployments>;

/** D4. */
export const FreeCount = Type.Object(
  { count: Type.Integer({ description: "Deployments of the types dev_free and dev_free_zero in the organization." }) },
  { $id: "FreeCount" },
);
export type FreeCount = Static<typeof FreeCount>;
