import { type Static, Type } from "typebox";
import { ResourceSpec } from "../deployments/resource-spec.ts";
import { literals, nullable } from "../schema.ts";

const containerSizes = {
  cpuCores: Type.Number(),
  cpuLimitCores: Type.Number(),
  memoryMib: Type.Number(),
  memoryLimitMib: Type.Number(),
};
const workloadSizes = { ...containerSizes, minReplicas: Type.Integer(), maxReplicas: Type.Integer() };

/** Resources with which a cluster runs a revision, with all defaults filled in. */
export const ClusterSizes = Type.Object({
  ...workloadSizes,
  queue: Type.Object(workloadSizes),
  redis: Type.Object(containerSizes),
  database: Type.Object({ ...containerSizes, storageGib: Type.Number(), connectionsMax: Type.Integer() }),
});
export type ClusterSizes = Static<typeof ClusterSizes>;

/** Reference to a value that is stored in the cluster and never leaves it. */
export const SecretReference = Type.Object({
  name: Type.String(),
  secret_name: Type.String(),
  secret_key: Type.String(),
});
export type SecretReference = Static<typeof SecretReference>;

/** Settings of a revision that only clusters use. */
export const ClusterRun = Type.Object({
  namespace: nullable(Type.String({ description: "null: the listener's only namespace." })),
  spec: ResourceSpec,
  sizes: ClusterSizes,
  secret_references: Type.Array(SecretReference),
  url: Type.String({ description: "Where callers reach the deployment: host and path of its route." }),
  profile: literals(["development", "production"], { description: "In production, the database has a standby." }),
});
export type ClusterRun = Static<typeof ClusterRun>;
