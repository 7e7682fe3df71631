import { type Static, Type } from "typebox";
import { DeploymentHealth } from "../deployments/health.ts";
import { freeObject, nullable, timestamp, uuid } from "../schema.ts";

/**
 * Response of `GET /debug/v1/deployments/{deployment_id}`: what the reconciler sees and would do next. For people: the
 * inner shapes follow the code and may change.
 */
export const DeploymentDebug = Type.Object(
  {
    deployment_id: uuid(),
    health: DeploymentHealth,
    desired: freeObject("Desired state in the store."),
    observed: nullable(freeObject(), "The last report of the deployment's listener, with its time."),
    next_step: Type.Object({ kind: Type.String(), because: Type.String() }),
    outcomes: Type.Array(
      Type.Object({ at: timestamp(), kind: Type.String(), because: Type.String(), duration_ms: Type.Number() }),
      { description: "The latest passes, newest first." },
    ),
    lease: nullable(freeObject(), "Worker that holds the deployment's lease, and the end of the lease."),
    assignment: nullable(freeObject(), "The assignment of the deployment's listener."),
  },
  { $id: "DeploymentDebug" },
);
export type DeploymentDebug = Static<typeof DeploymentDebug>;
