import { type Static, Type } from "typebox";
import { Secret } from "../deployments/deployment.ts";
import { rollbackPreviewExample } from "../examples.ts";
import { nullable, optional } from "../schema.ts";
import { Revision } from "./revision.ts";

const codeOnly = "Restore only the code. Variables and resources stay as they are now.";

/** Body of a rollback. Absent: code, variables, secrets and resources of the revision. */
export const RollbackRequest = Type.Object(
  { code_only: optional(Type.Boolean(), codeOnly) },
  { $id: "RollbackRequest", examples: [{ code_only: false }] },
);
export type RollbackRequest = Static<typeof RollbackRequest>;

export const RollbackQuery = Type.Object({
  code_only: Type.Boolean({ default: false, description: codeOnly }),
});
export type RollbackQuery = Static<typeof RollbackQuery>;

/** Names of variables that change, never their values. */
export const VariableChanges = Type.Object({
  added: Type.Array(Type.String()),
  removed: Type.Array(Type.String()),
  changed: Type.Array(Type.String()),
});
export type VariableChanges = Static<typeof VariableChanges>;

/** What a rollback would change, compared with the revision that serves. */
export const RollbackPreview = Type.Object(
  {
    from: nullable(Revision, "The revision that serves, or the newest one if none does."),
    to: Revision,
    code_only: Type.Boolean(),
    needs_build: Type.Boolean({ description: "Its artifact is no longer stored, so its source is built again." }),
    changes: Type.Array(
      Type.Object({
        field: Type.String({ description: "Path of the setting, such as source_config.resource_spec.cpu." }),
        before: Type.Unknown(),
        after: Type.Unknown(),
      }),
    ),
    variables: VariableChanges,
  },
  { $id: "RollbackPreview", examples: [rollbackPreviewExample] },
);
export type RollbackPreview = Static<typeof RollbackPreview>;

/** Body of a change of variables. Names that are not mentioned keep their values. */
export const ChangeVariables = Type.Object(
  {
    set: optional(Type.Array(Secret), "Variables to add or to replace."),
    remove: optional(Type.Array(Type.String()), "Names to remove. Unknown ones change nothing."),
  },
  { $id: "ChangeVariables", examples: [{ set: [{ name: "LOG_LEVEL", value: "debug" }], remove: ["OLD_KEY"] }] },
);
export type ChangeVariables = Static<typeof ChangeVariables>;

const replicasMax = 100;

/** Body of a change of the number of replicas. */
export const ScaleDeployment = Type.Object(
  {
    min_replicas: Type.Integer({
      ...{ minimum: 0, maximum: replicasMax },
      description: "Replicas that always run. 0 lets a deployment without a type sleep when nothing requests it.",
    }),
    max_replicas: optional(
      Type.Integer({ minimum: 1, maximum: replicasMax }),
      "Replicas that run at most; more than `min_replicas` run by load. Absent: `min_replicas`, or 1.",
    ),
  },
  { $id: "ScaleDeployment", examples: [{ min_replicas: 2, max_replicas: 4 }] },
);
export type ScaleDeployment = Static<typeof ScaleDeployment>;
