import { type Static, Type } from "typebox";
import {
  createDeploymentExample,
  deletedDeploymentsExample,
  deploymentExample,
  patchDeploymentExample,
} from "../examples.ts";
import { offsetQuery, resourcePage, SortOrder } from "../page.ts";
import { literals, mapOf, nullable, optional, timestamp, uuid } from "../schema.ts";
import { deploymentStatuses } from "./deployment-statuses.ts";
import { DeploymentHealth, HealthWord } from "./health.ts";
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

/** Deployment statuses (contract 5.1). `domain/deployment-status.ts` defines the transitions between them. */
export const DeploymentStatus = literals(deploymentStatuses);
export type DeploymentStatus = Static<typeof DeploymentStatus>;

const tiers = ["SERVERLESS_S", "SERVERLESS_M", "SERVERLESS_L", "DEDICATED_S", "DEDICATED_M", "DEDICATED_L"] as const;

/** Size of a whole deployment (contract 6.1). */
export const DeploymentTier = literals(tiers);
export type DeploymentTier = Static<typeof DeploymentTier>;

/** Size of a part of a deployment: its runtime or its database. */
export const Size = literals(["S", "M", "L"]);
export type Size = Static<typeof Size>;

/** Size as requests may name it: by its letter or by a tier that ends in the letter. */
export const SizeName = literals(["S", "M", "L", ...tiers]);
export type SizeName = Static<typeof SizeName>;

/** What keeps the threads and runs of an agent, as a deployment may choose it. `default` forgets an earlier choice. */
export const EngineChoice = literals(["default", "file", "memory", "postgres", "aegra"]);
export type EngineChoice = Static<typeof EngineChoice>;

export const ListenerConfig = Type.Object(
  { k8s_namespace: optional(Type.String(), "One of the listener's namespaces. Absent: its only one.") },
  { $id: "ListenerConfig" },
);
export type ListenerConfig = Static<typeof ListenerConfig>;

const sourceConfigFields = {
  integration_id: nullable(uuid(), "Integration that reads a private repository (github)."),
  repo_url: nullable(
    Type.String(),
    "Git URL of the repository (github). The server reads a changed repository before it accepts the change.",
  ),
  deployment_type: nullable(DeploymentType, "Fixed at creation. Default prod. Must be null for external_docker."),
  build_on_push: nullable(Type.Boolean(), "Create a revision when the tracked branch receives a push (github)."),
  custom_url: nullable(
    Type.String(),
    'Serving URL. Can be set only for external_docker, otherwise the server sets it. In a change, "" removes a URL that was set.',
  ),
  resource_spec: nullable(ResourceSpec, "Resources. external_docker only. Replaced as a whole."),
  listener_id: nullable(uuid(), "Data plane that runs the deployment. null: the built-in one (external_docker)."),
  listener_config: nullable(ListenerConfig),
  install_command: nullable(
    Type.String(),
    "Command that runs at the repository root before the build. JavaScript projects.",
  ),
  build_command: nullable(Type.String(), "Command that runs in the directory of the config file. JavaScript projects."),
  template_id: nullable(Type.String(), "Template of this server (internal_template)."),
  engine: nullable(
    EngineChoice,
    "What keeps threads and runs. Overrides `engine` of langgraph.json, which decides when this is null. `default` in a request sets null. Extension of Pierhead.",
  ),
};

/** Source settings as stored and returned: every key is present (contract 2.2). */
export const SourceConfig = Type.Object(
  { ...sourceConfigFields, repo_branch: nullable(Type.String(), "The tracked branch. Only in responses.") },
  { $id: "SourceConfig" },
);
export type SourceConfig = Static<typeof SourceConfig>;

const listenerSelector = nullable(
  mapOf(Type.String(), undefined, { examples: [{ region: "eu" }] }),
  "Labels that the listener must have, instead of `listener_id`. The server chooses the listener when it creates the deployment, and responses show its id. Extension of Pierhead.",
);

/** Source settings as a request may send them. Null and absent mean the same. */
export const SourceConfigInput = Type.Partial(
  Type.Object({ ...sourceConfigFields, listener_selector: listenerSelector }),
  { $id: "SourceConfigInput" },
);
export type SourceConfigInput = Static<typeof SourceConfigInput>;

const configPath =
  "Config file, relative to the repository or archive root. May contain blanks (github, internal_source).";

const sourceRevisionConfigFields = {
  repo_ref: nullable(Type.String(), "Branch name, `refs/tags/<tag>`, or commit hash (github)."),
  langgraph_config_path: nullable(Type.String(), configPath),
  framework_config_path: nullable(Type.String(), "Same as langgraph_config_path. A request may send either."),
  image_uri: nullable(Type.String(), "Docker image reference, by tag or digest (external_docker, internal_docker)."),
  source_tarball_path: nullable(
    Type.String(),
    "`object_path` of a finished upload of this deployment (internal_source).",
  ),
};

/** Settings of one revision as stored and returned: every key is present (contract 2.3). */
export const SourceRevisionConfig = Type.Object(
  {
    ...sourceRevisionConfigFields,
    repo_commit_sha: nullable(Type.String(), "Commit of repo_ref when the revision was created."),
    deepagents_version: nullable(Type.String()),
    tracked_packages: nullable(Type.Array(Type.String()), "`<package>:<version>` each."),
  },
  { $id: "SourceRevisionConfig" },
);
export type SourceRevisionConfig = Static<typeof SourceRevisionConfig>;

/** Revision settings as a request may send them. Null and absent mean the same. */
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

const agentId = (description: string) =>
  Type.String({
    pattern:
      "^(?:[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})$",
    description,
    examples: ["support-agent"],
  });

export const AgentRef = Type.Object(
  {
    agent_id: agentId("A DNS label of at most 63 characters that starts with a letter, or a UUID."),
    environment: AgentEnvironment,
  },
  { $id: "AgentRef" },
);
export type AgentRef = Static<typeof AgentRef>;

/** Named agent server that a workspace wants to run (contract 2.1). */
export const Deployment = Type.Object(
  {
    id: uuid(),
    tenant_id: uuid("Workspace that owns it."),
    name: Type.String({ description: "Unique in the workspace. Cannot change." }),
    display_name: nullable(Type.String()),
    source: SourceKind,
    source_config: SourceConfig,
    source_revision_config: SourceRevisionConfig,
    secrets: Type.Array(Secret),
    secret_references: nullable(Type.Array(SecretReference)),
    created_at: timestamp(),
    updated_at: timestamp(),
    status: DeploymentStatus,
    latest_revision_id: nullable(uuid(), "Newest revision in any status. null before the first one."),
    active_revision_id: nullable(uuid(), "The revision that serves. null until a revision was deployed."),
    image_version: nullable(Type.String(), "Version of the agent server in the active revision."),
    url: nullable(Type.String(), "Serving URL. Same value as source_config.custom_url."),
    tracer_session_id: nullable(uuid()),
    shareable: Type.Boolean(),
    route_through_gateway: Type.Boolean(),
    is_preview: Type.Boolean({ description: "Created for a pull request." }),
    is_managed_deep_agent: Type.Boolean(),
    agent: nullable(AgentRef),
    deployment_tier: nullable(DeploymentTier, "Size of the deployment. null for types with only one size."),
    compute_tier: nullable(Size, "Size of the runtime, if it differs from the tier."),
    database_tier: nullable(Size, "Size of the database, if it differs from the tier."),
    tracked_packages: nullable(Type.Array(Type.String())),
    parent_deployment_id: nullable(uuid(), "Deployment that a preview belongs to."),
    health: DeploymentHealth,
  },
  {
    $id: "Deployment",
    description: "A named agent server: its desired settings, and the revisions that run it.",
    examples: [deploymentExample],
  },
);
export type Deployment = Static<typeof Deployment>;

export const DeploymentPage = resourcePage(Deployment, "DeploymentPage");
export type DeploymentPage = Static<typeof DeploymentPage>;

export const DeploymentPath = Type.Object({ deployment_id: uuid("Deployment of your workspace.") });
export type DeploymentPath = Static<typeof DeploymentPath>;

/** Sort keys of D1. An empty text in its query means no filter. Unknown statuses and tag values match nothing. */
export const DeploymentSort = literals(["created_at", "updated_at", "name", "status", "health"]);
export type DeploymentSort = Static<typeof DeploymentSort>;

export const ListDeploymentsQuery = Type.Object({
  ...offsetQuery,
  sort_by: Type.Optional(
    literals(DeploymentSort.enum, {
      description: "Default: deployments with exactly this name first, then the newest.",
    }),
  ),
  sort_order: Type.Optional(
    literals(SortOrder.enum, {
      description: "Default: desc for times, asc for texts. Without `sort_by` it applies to `created_at`.",
    }),
  ),
  name_contains: Type.Optional(
    Type.String({ description: "Part of the name, case-insensitive. Exact matches come first." }),
  ),
  text_contains: Type.Optional(
    Type.String({
      description:
        "Part of the name, the display name, the repository, the image, or the newest commit's message or author, case-insensitive. Exact names come first. Extension of Pierhead.",
    }),
  ),
  name: Type.Optional(Type.String({ description: "Exact name." })),
  status: Type.Optional(Type.String({ description: "A deployment status. An unknown one returns an empty page." })),
  health: Type.Optional(
    Type.Array(HealthWord, { description: "Only deployments with one of these health words, separated by commas." }),
  ),
  remote_reconciled: Type.Optional(
    Type.Boolean({ description: "true: run by a remote listener; false: by the built-in one." }),
  ),
  listener_id: Type.Optional(uuid("Only deployments that this listener runs. Extension of Pierhead.")),
  tag_value_ids: Type.Optional(
    Type.String({
      description:
        "Tag value ids, separated by commas. A deployment matches if it has, of every tag, one of its given values.",
    }),
  ),
  image_version: Type.Optional(Type.String({ description: "Exact." })),
  deployment_type: Type.Optional(literals(DeploymentType.enum, { description: "Exact." })),
  deployment_ids: Type.Optional(Type.String({ description: "Deployment ids, separated by commas." })),
  url: Type.Optional(Type.String({ description: "Exact serving URL." })),
  agent_id: Type.Optional(agentId("Agent that the deployments were created for.")),
  agent_environment: Type.Optional(literals(AgentEnvironment.enum, { description: "Environment of that agent." })),
});
export type ListDeploymentsQuery = Static<typeof ListDeploymentsQuery>;

/** Body of D2. `domain/source-rules.ts` defines which fields a source needs or refuses. */
export const CreateDeployment = Type.Object(
  {
    name: optional(Type.String({ minLength: 1 }), "Required unless `agent` is given.", { requiredUnless: "agent" }),
    source: SourceKind,
    source_config: SourceConfigInput,
    source_revision_config: SourceRevisionConfigInput,
    secrets: optional(Type.Array(Secret), "Environment of the agent server, encrypted at rest. Default []."),
    secret_references: optional(Type.Array(SecretReference), "external_docker only."),
    shareable: optional(Type.Boolean(), "Default false."),
    route_through_gateway: optional(Type.Boolean(), "Default false."),
    agent: optional(AgentRef),
    variable_group_ids: optional(
      Type.Array(uuid()),
      "Groups whose variables the deployment gets. If several of them have the same variable, the last group wins. `secrets` win over all groups. Extension of Pierhead.",
    ),
  },
  { $id: "CreateDeployment", examples: [createDeploymentExample] },
);
export type CreateDeployment = Static<typeof CreateDeployment>;

/** Source of the revision that a PATCH creates, if it differs from the deployment's. */
export const RevisionSource = literals(["github", "internal_docker", "internal_source"]);
export type RevisionSource = Static<typeof RevisionSource>;

/** Body of D6. A null or absent field leaves the setting unchanged, and so does `secrets: []`. */
export const PatchDeployment = Type.Object(
  {
    name: optional(Type.String(), "Cannot change. The current value is accepted."),
    source: optional(Type.String(), "Cannot change. The current value is accepted."),
    revision_source: optional(RevisionSource),
    source_config: optional(SourceConfigInput, "Merged field by field."),
    source_revision_config: optional(SourceRevisionConfigInput, "Merged. A non-null field creates a revision."),
    secrets: optional(Type.Array(Secret), "Replaces all secrets. [] leaves them unchanged."),
    secret_references: optional(Type.Array(SecretReference), "Replaces all references. [] removes them."),
    display_name: optional(Type.String({ minLength: 1, maxLength: 256 })),
    tracked_repo_ref: optional(
      Type.String({ minLength: 1 }),
      "Changes the tracked branch without creating a revision.",
    ),
    deployment_tier: optional(DeploymentTier),
    route_through_gateway: optional(Type.Boolean()),
    shareable: optional(Type.Boolean()),
    tracked_packages: optional(
      Type.Array(Type.String({ maxLength: 128, pattern: "^[^\\s:]+:[^\\s:][^:]*$" }), { maxItems: 200 }),
      "`<package>:<version>` each, with a version or a version requirement. Stored with the revision that this call creates.",
    ),
  },
  { $id: "PatchDeployment", examples: [patchDeploymentExample] },
);
export type PatchDeployment = Static<typeof PatchDeployment>;

/** Body of D8. */
export const PatchDeploymentTier = Type.Object(
  { deployment_tier: DeploymentTier },
  {
    $id: "PatchDeploymentTier",
    examples: [{ deployment_tier: "DEDICATED_M" }],
  },
);
export type PatchDeploymentTier = Static<typeof PatchDeploymentTier>;

/** Body of D9. At least one of the fields is required. */
export const PatchResourceTiers = Type.Object(
  { compute_tier: optional(SizeName), database_tier: optional(SizeName, "Dedicated deployments only.") },
  { $id: "PatchResourceTiers", examples: [{ compute_tier: "L", database_tier: "M" }] },
);
export type PatchResourceTiers = Static<typeof PatchResourceTiers>;

/** Deployments that one call can delete (contract 4.7). */
export const bulkDeleteMax = 100;

/** Query of D7. */
export const DeleteDeploymentQuery = Type.Object({
  delete_tracing_project: Type.Boolean({
    default: false,
    description: "Also delete the tracing project with the deployment's name.",
  }),
  force: Type.Boolean({
    default: false,
    description: "Only for a deployment that is being deleted: forget it without waiting for its data plane.",
  }),
});
export type DeleteDeploymentQuery = Static<typeof DeleteDeploymentQuery>;

/** Query of D3. */
export const DeleteDeploymentsQuery = Type.Object({
  deployment_ids: Type.Array(uuid(), {
    minItems: 1,
    maxItems: bulkDeleteMax,
    description: "Repeated, or separated by commas.",
  }),
  ...DeleteDeploymentQuery.properties,
});
export type DeleteDeploymentsQuery = Static<typeof DeleteDeploymentsQuery>;

/** Result of a bulk delete. */
export const DeletedDeployments = Type.Object(
  {
    deleted: Type.Array(uuid(), {
      description: "Accepted for deletion. They answer 404 once all their resources are deleted.",
    }),
    failed: Type.Array(
      Type.Object({
        deployment_id: uuid(),
        status_code: Type.Integer({ description: "Status that deleting only this deployment would return." }),
        detail: Type.String(),
      }),
    ),
  },
  { $id: "DeletedDeployments", examples: [deletedDeploymentsExample] },
);
export type DeletedDeployments = Static<typeof DeletedDeployments>;

/** Result of D4. */
export const FreeCount = Type.Object(
  { count: Type.Integer({ description: "Deployments of the types dev_free and dev_free_zero in the organization." }) },
  { $id: "FreeCount" },
);
export type FreeCount = Static<typeof FreeCount>;
