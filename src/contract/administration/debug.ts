import { type Static, Type } from "typebox";
import { freeObject, nullable, timestamp, uuid } from "../schema.ts";

/**
 * `GET /debug/v1/deployments/{deployment_id}`: what the reconciler sees and would do next. For people; the inner shapes
 * follow the code and carry no promise.
 */
export const DeploymentDebug = Type.Object(
  {
    deployment_id: uuid(),
    desired: freeObject("What the store says should be."),
    observed: nullable(freeObject(), "The last report of its listener, with its time."),
    next_step: Type.Object({ kind: Type.String(), because: Type.String() }),
    outcomes: Type.Array(
      Type.Object({ at: timestamp(), kind: Type.String(), because: Type.String(), duration_ms: Type.Number() }),
      { description: "The latest passes, newest first." },
    ),
    lease: nullable(freeObject(), "Worker that may act on it now, and until when."),
    assignment: nullable(freeObject(), "What its listener was told."),
  },
  { $id: "DeploymentDebug" },
);
export type DeploymentDebug = Static<typeof DeploymentDebug>;
