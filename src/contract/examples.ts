/**
 * One example of each schema that is too large to be composed from the examples of its fields. The `examples` of the
 * schemas refer to them, so they appear in the OpenAPI document. A test checks each one against its schema.
 */

const deploymentId = "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11";
const revisionId = "b8a14c1e-2a5d-4f6e-8d0b-7c1f3e5a9d42";

const revisionSettings = {
  repo_ref: "main",
  langgraph_config_path: "langgraph.json",
  framework_config_path: "langgraph.json",
  image_uri: null,
  source_tarball_path: null,
  repo_commit_sha: "3f1c9a0b7d2e4f5a6b8c9d0e1f2a3b4c5d6e7f80",
  deepagents_version: null,
  tracked_packages: null,
};

export const deploymentExample = {
  id: deploymentId,
  tenant_id: "0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22",
  name: "support-bot",
  display_name: "Support bot",
  source: "github",
  source_config: {
    integration_id: null,
    repo_url: "https://github.com/acme/support-bot",
    deployment_type: "prod",
    build_on_push: true,
    custom_url: "http://127.0.0.1:8124/d/support-bot-6b1f0f64",
    resource_spec: null,
    listener_id: null,
    listener_config: null,
    install_command: null,
    build_command: "npm run build",
    template_id: null,
    engine: null,
    repo_branch: "main",
  },
  source_revision_config: revisionSettings,
  secrets: [{ name: "OPENAI_API_KEY", value: "sk-example" }],
  secret_references: null,
  created_at: "2026-11-20T10:00:00.000000Z",
  updated_at: "2026-11-20T10:04:11.120000Z",
  status: "READY",
  latest_revision_id: revisionId,
  active_revision_id: revisionId,
  image_version: "1.4.5",
  url: "http://127.0.0.1:8124/d/support-bot-6b1f0f64",
  tracer_session_id: "4c1d9a7e-52b8-5f30-9e6d-7a8b0c2d4e6f",
  shareable: false,
  route_through_gateway: false,
  is_preview: false,
  is_managed_deep_agent: false,
  agent: null,
  deployment_tier: "DEDICATED_S",
  compute_tier: null,
  database_tier: null,
  tracked_packages: null,
  parent_deployment_id: null,
  health: {
    ...{ status: "live", since: "2026-11-20T10:04:11.120000Z", reason: null, message: null },
    ...{ failure: null, next_action: null, can_roll_back: false },
  },
};

export const createDeploymentExample = {
  name: "support-bot",
  source: "github",
  source_config: {
    repo_url: "https://github.com/acme/support-bot",
    deployment_type: "prod",
    build_on_push: true,
    build_command: "npm run build",
  },
  source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
  secrets: [{ name: "OPENAI_API_KEY", value: "sk-example" }],
};

export const patchDeploymentExample = {
  source_revision_config: { repo_ref: "release" },
  secrets: [{ name: "OPENAI_API_KEY", value: "sk-newer-example" }],
};

export const deletedDeploymentsExample = {
  deleted: [deploymentId],
  failed: [
    {
      deployment_id: "2f4e6d8c-1b3a-4c5d-9e7f-a0b1c2d3e4f5",
      status_code: 404,
      detail: "Deployment ID 2f4e6d8c-1b3a-4c5d-9e7f-a0b1c2d3e4f5 not found.",
    },
  ],
};

export const createRevisionExample = {
  source_revision_config: { repo_ref: "refs/tags/v1.2.0" },
  source_config: { build_on_push: false },
};

export const revisionExample = {
  id: revisionId,
  deployment_id: deploymentId,
  created_at: "2026-11-20T10:00:00.000000Z",
  updated_at: "2026-11-20T10:04:11.120000Z",
  status: "DEPLOYED",
  status_message: null,
  failure: null,
  source: "github",
  source_revision_config: revisionSettings,
  image_version: "1.4.5",
  triggered_by: "api",
  rollout: "rolling",
  engine: "own",
  engine_because: null,
  artifact_digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  builder_version: "2/js-1.4.5/py-0.9.2",
  number: 7,
  reason: "deploy",
  made_by: { kind: "key", name: "ci" },
  based_on: null,
  commit: { message: "Answer in the user's language", author: "Ada" },
};

export const rollbackPreviewExample = {
  from: { ...revisionExample, number: 8, reason: "push", commit: { message: "Use the new model", author: "Ada" } },
  to: revisionExample,
  code_only: false,
  needs_build: false,
  changes: [{ field: "source_revision_config.repo_ref", before: "main", after: "refs/tags/v1.2.0" }],
  variables: { added: [], removed: ["MODEL"], changed: ["LOG_LEVEL"] },
};

export const metricsExample = {
  deployment_id: deploymentId,
  step_s: 60,
  points: [
    {
      at: "2026-11-20T10:03:00.000Z",
      replicas: 2,
      cpu_cores: 0.412,
      memory_mib: 311.5,
      restarts: 0,
      requests: 240,
      errors: 1,
      p50_ms: 84.2,
      p95_ms: 410,
      p99_ms: 930,
      runs_waiting: 3,
      runs_running: 10,
      runs_failed: 1,
      runs_recovered: 0,
      input_tokens: 18_420,
      output_tokens: 2_310,
    },
  ],
};

export const logEntryExample = {
  id: "01JD4Q7Z9X-17",
  timestamp: "2026-11-20T10:03:02.481000Z",
  level: "INFO",
  message: "Server running at 127.0.0.1:41873",
  source: "deploy",
  revision_id: revisionId,
  replica: "support-bot-6b1f0f64-1",
  stream: "stdout",
  run_id: null,
};
