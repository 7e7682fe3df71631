import { type Static, Type } from "typebox";
import { Cause, ReplicaReport } from "../listeners/assignment.ts";
import { nullable, timestamp, uuid } from "../schema.ts";

/** One running copy of a deployment, as its listener reported it last. */
export const Replica = Type.Object({
  id: Type.String(),
  revision_id: uuid(),
  revision_number: nullable(Type.Integer()),
  phase: ReplicaReport.properties.phase,
  started_at: nullable(Type.String()),
  restarts: Type.Integer({ description: "How often it was started again after an exit." }),
  limits: ReplicaReport.properties.limits,
  cpu_cores: nullable(Type.Number(), "CPU use in the last minute. null: not measured."),
  memory_mib: nullable(Type.Number(), "Memory use, likewise."),
});
export type Replica = Static<typeof Replica>;

/** The replicas of a deployment. */
export const DeploymentReplicas = Type.Object(
  {
    replicas: Type.Array(Replica),
    reported_at: nullable(timestamp(), "Time of the report. null: its listener has not reported on it yet."),
    asleep: Type.Boolean({ description: "Scaled to zero. The next request wakes it." }),
    last_exit: nullable(Cause, "Why nothing runs now, or why a replica ended last."),
    last_exit_at: nullable(
      timestamp(),
      "When a replica ended last. null: no exit is known, or `last_exit` is no exit.",
    ),
    exits_in_a_row: Type.Integer({ description: "Exits of the revision that serves, each soon after its start." }),
  },
  {
    $id: "DeploymentReplicas",
    examples: [
      {
        replicas: [
          {
            id: "support-bot-6b1f0f64-1",
            revision_id: "0b6f2c1e-3d4a-4b5c-8d7e-9f0a1b2c3d4e",
            revision_number: 7,
            phase: "ready",
            started_at: "2026-11-20T10:04:09.000Z",
            restarts: 0,
            limits: { memory: "enforced", cpu: "enforced" },
            cpu_cores: 0.31,
            memory_mib: 212.5,
          },
        ],
        reported_at: "2026-11-20T10:05:00.000000Z",
        asleep: false,
        last_exit: null,
        last_exit_at: null,
        exits_in_a_row: 0,
      },
    ],
  },
);
export type DeploymentReplicas = Static<typeof DeploymentReplicas>;
