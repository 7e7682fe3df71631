import { type Static, Type } from "typebox";
import {
  RevisionSource,
  Secret,
  SecretReference,
  SourceConfigInput,
  SourceKind,
  SourceRevisionConfig,
  SourceRevisionConfigInput,
} from "../deployments/deployment.ts";
import { createRevisionExample, revisionExample } from "../examples.ts";
import { Engine, EngineBecause, Rollout } from "../listeners/assignment.ts";
import { offsetQuery, resourcePage } from "../page.ts";
import { literals, nullable, optional, timestamp, uuid } from "../schema.ts";
import { Failure } from "./failure.ts";

/** Revision statuses (contract 5.2). `domain/revision-status.ts` defines the transitions between them. */
export const RevisionStatus = literals([
  "CREATING",
  "QUEUED",
  "AWAITING_BUILD",
  "BUILDING",
  "AWAITING_DEPLOY",
  "DEPLOYING",
  "DEPLOYED",
  "CREATE_FAILED",
  "BUILD_FAILED",
  "DEPLOY_FAILED",
  "SKIPPED",
  "INTERRUPTED",
  "UNKNOWN",
]);
export type RevisionStatus = Static<typeof RevisionStatus>;

export const RevisionTrigger = literals(["api", "push", "pull_request", "redeploy", "tier", "system"]);
export type RevisionTrigger = Static<typeof RevisionTrigger>;

/**
 * Why a revision exists. `triggered_by` is the contract's coarser word for it. deploy: new code or settings by hand; latest:
 * the newest commit by hand; retry: a failed revision again.
 */
export const RevisionReason = literals([
  "deploy",
  "latest",
  "push",
  "pull_request",
  "variables",
  "size",
  "rollback",
  "redeploy",
  "retry",
  "restart",
  "system",
]);
export type RevisionReason = Static<typeof RevisionReason>;

/** Maker of a revision: an API key, a member, or Pierhead itself. */
export const RevisionMaker = Type.Object({
  kind: literals(["key", "member", "system"]),
  name: nullable(Type.String(), "Name of the key or address of the member. null: deleted since, or Pierhead."),
});
export type RevisionMaker = Static<typeof RevisionMaker>;

/** Immutable version of a deployment and the attempt to run it (contract 2.5). */
export const Revision = Type.Object(
  {
    id: uuid(),
    deployment_id: uuid(),
    created_at: timestamp(),
    updated_at: timestamp(),
    status: RevisionStatus,
    status_message: nullable(Type.String(), "Reason for the status. Always set for a failed revision."),
    failure: nullable(Failure, "Why it failed. null: it has not, or an older server recorded only the message."),
    source: SourceKind,
    source_revision_config: SourceRevisionConfig,
    image_version: nullable(Type.String(), "Version of the agent server."),
    triggered_by: RevisionTrigger,
    rollout: nullable(
      Rollout,
      "rolling: new replicas start beside the old ones. handover: the new ones start after the old ones have stopped, because the local state is exclusive.",
    ),
    engine: nullable(
      Engine,
      "What keeps threads and runs. file: LangGraph.js on files. memory: LangGraph for Python. postgres: LangGraph.js on PostgreSQL. own: the project's own server. null: not built yet, an image, or built by an older server.",
    ),
    engine_because: nullable(
      EngineBecause,
      "What decided about the engine of a LangGraph agent: the choice of the deployment, the configuration, or the default, which is `postgres` for a new LangGraph.js deployment with a PostgreSQL. packages: the default would be `postgres`, but the packages of the project do not work with it, as the build log says. null: nothing to choose, or built by an older server.",
    ),
    artifact_digest: nullable(Type.String(), "Digest of the build or of the image. null until it is known."),
    builder_version: nullable(Type.String(), "Version of the builder. null: this server did not build it."),
    number: nullable(Type.Integer(), "Counts the revisions of the deployment from 1. null: an older server made it."),
    reason: nullable(RevisionReason, "Why it exists. null: an older server made it."),
    made_by: nullable(RevisionMaker, "null: an older server made it."),
    based_on: nullable(
      Type.Object({ id: uuid(), number: nullable(Type.Integer()) }),
      "The earlier revision that it runs again: of a rollback, redeploy, retry, restart or change of variables.",
    ),
    commit: nullable(
      Type.Object({ message: Type.String(), author: nullable(Type.String()) }),
      "First lines and author of the commit. null: no git source, or not read yet.",
    ),
  },
  {
    $id: "Revision",
    description: "An immutable version of a deployment and the attempt to run it.",
    examples: [revisionExample],
  },
);
export type Revision = Static<typeof Revision>;

export const RevisionPage = resourcePage(Revision, "RevisionPage");
export type RevisionPage = Static<typeof RevisionPage>;

export const RevisionPath = Type.Object({
  deployment_id: uuid("Deployment of your workspace."),
  revision_id: uuid("Revision of that deployment."),
});
export type RevisionPath = Static<typeof RevisionPath>;

/** Query of R1. Newest first. */
export const ListRevisionsQuery = Type.Object({
  ...offsetQuery,
  status: Type.Optional(
    Type.String({ description: "Revision statuses, separated by commas; unknown names match nothing." }),
  ),
  remote_reconciled: Type.Optional(
    Type.Boolean({ description: "true: run by a remote listener; false: by the built-in one." }),
  ),
});
export type ListRevisionsQuery = Static<typeof ListRevisionsQuery>;

/** Body of R2. An empty body runs the current settings again. Immutable fields are refused unless they are unchanged. */
export const CreateRevision = Type.Object(
  {
    revision_source: optional(RevisionSource),
    source_config: optional(SourceConfigInput, "install_command, build_command, resource_spec, build_on_push."),
    source_revision_config: optional(SourceRevisionConfigInput, "Merged into the current one."),
    secrets: optional(Type.Array(Secret), "Replaces all secrets. [] leaves them unchanged."),
    secret_references: optional(Type.Array(SecretReference), "Replaces all references. [] removes them."),
  },
  { $id: "CreateRevision", examples: [createRevisionExample] },
);
export type CreateRevision = Static<typeof CreateRevision>;
