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
import { Rollout } from "../listeners/assignment.ts";
import { offsetQuery, resourcePage } from "../page.ts";
import { given, literals, nullable, timestamp, uuid } from "../schema.ts";

/** Contract 5.2. The moves between them stand in `domain/revision-status.ts`. */
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

/** One immutable version of a deployment and the attempt to run it (contract 2.5). */
export const Revision = Type.Object(
  {
    id: uuid(),
    deployment_id: uuid(),
    created_at: timestamp(),
    updated_at: timestamp(),
    status: RevisionStatus,
    status_message: nullable(Type.String(), "Why it stands where it stands; always filled when it failed."),
    source: SourceKind,
    source_revision_config: SourceRevisionConfig,
    image_version: nullable(Type.String(), "Version of the agent server."),
    triggered_by: RevisionTrigger,
    rollout: nullable(
      Rollout,
      "rolling: new replicas beside the old ones. handover: exclusive local state moves from old to new.",
    ),
    artifact_digest: nullable(Type.String(), "Of what was built, or of the image; null before that."),
    builder_version: nullable(Type.String(), "Of what built it; null: it was not built here."),
  },
  {
    $id: "Revision",
    description: "One immutable version of a deployment and the attempt to run it.",
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

/** R1. Newest first. */
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

/** R2. An empty body runs the current settings again. Fields that cannot change are refused unless equal. */
export const CreateRevision = Type.Object(
  {
    revision_source: given(RevisionSource),
    source_config: given(SourceConfigInput, "install_command, build_command, resource_spec, build_on_push."),
    source_revision_config: given(SourceRevisionConfigInput, "Merged into the current one."),
    secrets: given(Type.Array(Secret), "Replaces all secrets; [] leaves them as they are."),
    secret_references: given(Type.Array(SecretReference), "Replaces all references; [] clears them."),
  },
  { $id: "CreateRevision", examples: [createRevisionExample] },
);
export type CreateRevision = Static<typeof CreateRevision>;
