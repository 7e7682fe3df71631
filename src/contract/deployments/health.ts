import { type Static, Type } from "typebox";
import { Failure } from "../revisions/failure.ts";
import { literals, nullable, timestamp } from "../schema.ts";

/**
 * How a deployment is doing, as one word. `status` is the contract's and says whether the deployment can be worked with;
 * this says whether its agents answer. `domain/deployment-health.ts` derives it.
 */
export const healthWords = [
  "live",
  "deploying",
  "degraded",
  "crash_looping",
  "failed",
  "sleeping",
  "deleting",
  "unknown",
] as const;
export const HealthWord = literals(healthWords);
export type HealthWord = Static<typeof HealthWord>;

/** What a user can do about it. Clients turn the kind into a button or a command. */
export const NextAction = Type.Object({
  kind: literals(["read_build_log", "read_log", "deploy", "set_variable", "check_listener"]),
  text: Type.String({ description: "One sentence for the user." }),
});
export type NextAction = Static<typeof NextAction>;

/** Observed health of a deployment, with its cause. */
export const DeploymentHealth = Type.Object(
  {
    status: HealthWord,
    since: timestamp("When the deployment got this status."),
    reason: nullable(Type.String(), "CamelCase, stable: Exited, BuildFailed, ReplicasMissing, ... null: all is well."),
    message: nullable(Type.String(), "What happened, for the user."),
    failure: nullable(Failure, "null: nothing failed, or an older server recorded only the message."),
    next_action: nullable(NextAction),
    can_roll_back: Type.Boolean({
      description: "What serves is not well, and an earlier revision served before.",
    }),
  },
  { $id: "DeploymentHealth" },
);
export type DeploymentHealth = Static<typeof DeploymentHealth>;

const count = Type.Integer({ minimum: 0 });

/** Number of deployments of a workspace per health. Every word is present. */
export const HealthCounts = Type.Object(
  {
    counts: Type.Object({
      live: count,
      deploying: count,
      degraded: count,
      crash_looping: count,
      failed: count,
      sleeping: count,
      deleting: count,
      unknown: count,
    }),
  },
  { $id: "HealthCounts" },
);
export type HealthCounts = Static<typeof HealthCounts>;
