import { type Static, Type } from "typebox";
import { literals } from "../schema.ts";

/** Why a revision failed or a deployment is not well. The same words for processes, Docker and Kubernetes. */
export const failureCodes = [
  // The source or the image.
  "source_missing",
  "repository_refused",
  "repository_unreachable",
  "ref_missing",
  "fetch_failed",
  "archive_refused",
  "image_missing",
  "database_unavailable",
  "engine_unavailable",
  // The build.
  "config_missing",
  "config_invalid",
  "command_invalid",
  "unsupported",
  "toolchain_failed",
  "install_failed",
  "build_failed",
  "build_timed_out",
  "build_quota_exceeded",
  "builder_missing",
  "builder_failed",
  "disk_full",
  // The start and the replicas.
  "start_refused",
  "variables_missing",
  "exited",
  "never_healthy",
  "out_of_memory",
  "out_of_disk",
  "port_taken",
  "init_failed",
  "no_capacity",
  "evicted",
  "policy_refused",
  "storage_missing",
  "engine_refused",
  "cluster_unreachable",
  "lost",
  "listener_gone",
  "timed_out",
] as const;
export const FailureCode = literals(failureCodes);
export type FailureCode = Static<typeof FailureCode>;

export const Failure = Type.Object(
  {
    code: FailureCode,
    variables: Type.Array(Type.String(), {
      description: "With `variables_missing`: the names of the variables. Otherwise empty.",
    }),
  },
  { $id: "Failure", description: "Why something failed, for programs. The message beside it is for users." },
);
export type Failure = Static<typeof Failure>;
