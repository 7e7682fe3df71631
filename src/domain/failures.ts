import type { NextAction } from "../contract/deployments/health.ts";
import type { Cause } from "../contract/listeners/assignment.ts";
import type { Failure, FailureCode } from "../contract/revisions/failure.ts";

export const failure = (code: FailureCode, variables: string[] = []): Failure => ({ code, variables });

/** Whether a variable was missing that is among these names: the user sets it to run that code. */
export const lacksOneOf = (failed: Failure | null, names: readonly string[]): boolean =>
  failed?.code === "variables_missing" && failed.variables.some((name) => names.includes(name));

/** Codes of the reasons that builds end with (src/builds/failure.ts). */
const buildCodes: Readonly<Record<string, FailureCode>> = {
  ArchiveRefused: "archive_refused",
  BuildFailed: "build_failed",
  BuilderFailed: "builder_failed",
  CommandInvalid: "command_invalid",
  ConfigInvalid: "config_invalid",
  ConfigMissing: "config_missing",
  DiskFull: "disk_full",
  EngineUnavailable: "engine_unavailable",
  FetchFailed: "fetch_failed",
  InstallFailed: "install_failed",
  Timeout: "build_timed_out",
  ToolchainFailed: "toolchain_failed",
  Unsupported: "unsupported",
};

/** Returns the failure of a build. `reason` null: a server of an earlier version ran it. */
export const buildFailure = (reason: string | null): Failure => failure(buildCodes[reason ?? ""] ?? "build_failed");

/** Codes of the reasons that listeners report. */
const causeCodes: Readonly<Record<string, FailureCode>> = {
  Exited: "exited",
  OutOfMemory: "out_of_memory",
  OutOfDisk: "out_of_disk",
  NotHealthy: "never_healthy",
  StartError: "start_refused",
  InitFailed: "init_failed",
  EngineRefused: "engine_refused",
  EngineUnavailable: "engine_unavailable",
  PortTaken: "port_taken",
  Lost: "lost",
  Evicted: "evicted",
  Forbidden: "policy_refused",
  Storage: "storage_missing",
  NoCapacity: "no_capacity",
  Unschedulable: "no_capacity",
  ImagePull: "image_missing",
  RegistryUnreachable: "image_missing",
  ClusterError: "cluster_unreachable",
};

/** Returns the failure behind a cause that a listener reports; null: no replica failed, for example objects were changed by hand. */
export function causeFailure({ reason, variables = [] }: Pick<Cause, "reason" | "variables">): Failure | null {
  if (variables.length > 0) return failure("variables_missing", variables);
  const code = causeCodes[reason];
  return code === undefined ? null : failure(code);
}

/** Codes of the reasons for which git fails (src/integrations/git-failure.ts). */
const gitCodes: Readonly<Record<string, FailureCode>> = {
  RefNotFound: "ref_missing",
  AccessDenied: "repository_refused",
  UrlRefused: "repository_refused",
  Unreachable: "repository_unreachable",
  Timeout: "repository_unreachable",
  GitMissing: "builder_failed",
};

export const gitFailure = (reason: string): Failure => failure(gitCodes[reason] ?? "fetch_failed");

/** What the messages of earlier versions say about causes that have a code today. */
const earlierForms: readonly [form: RegExp, code: FailureCode][] = [
  [/\bSet (?:it|each|them) with: pierhead env set \S+ (\w+(?: \w+)*)\./, "variables_missing"],
  [/more than its memory limit of \d+ MiB/, "out_of_memory"],
  [/did not answer 200 on/, "never_healthy"],
];

/** Returns the failure of a health that an earlier version of the program recorded, which has only words. */
export function earlierFailure(reason: string | null, message: string | null): Failure | null {
  const known = causeCodes[reason ?? ""];
  if (known !== undefined && known !== "exited") return failure(known);
  for (const [form, code] of earlierForms) {
    const found = form.exec(message ?? "");
    if (found !== null) return failure(code, found[1]?.toUpperCase().split(" ") ?? []);
  }
  return known === undefined ? null : failure(known);
}

const deploy = (text: string): NextAction => ({ kind: "deploy", text });
const readBuildLog = (text: string): NextAction => ({ kind: "read_build_log", text });
const readLog = (text: string): NextAction => ({ kind: "read_log", text });
const checkListener = (text: string): NextAction => ({ kind: "check_listener", text });

const actions: Readonly<Record<Exclude<FailureCode, "variables_missing">, NextAction>> = {
  source_missing: deploy("Upload the source again."),
  repository_refused: deploy("Correct the address of the repository, or connect an integration that may read it."),
  repository_unreachable: deploy("Check that this server reaches the code host, then retry."),
  ref_missing: deploy("Choose a branch, tag or commit that the repository has."),
  fetch_failed: deploy("Read why the source could not be fetched, then retry."),
  archive_refused: deploy("Correct the archive, then upload it again."),
  image_missing: deploy("Check the image and the credentials of its registry, then deploy again."),
  database_unavailable: deploy("Correct the database that the message names, then retry."),
  engine_unavailable: deploy("Give the engine what the message names, or remove the choice of the engine."),
  config_missing: deploy("Set the path of the configuration file, relative to the root of the source."),
  config_invalid: deploy("Correct the configuration file, then deploy again."),
  command_invalid: deploy("Correct the command, then deploy again."),
  unsupported: deploy("Change what the message names, then deploy again."),
  toolchain_failed: readBuildLog("Read the build log and check that this server reaches its package registries."),
  install_failed: readBuildLog(
    "Read the build log, correct the dependencies or the install command, then deploy again.",
  ),
  build_failed: readBuildLog("Read the build log, change the source or the settings, then deploy again."),
  build_timed_out: readBuildLog("Read the build log for the step that hangs or is slow, then deploy again."),
  build_quota_exceeded: deploy("Wait until the quota starts over, or ask an administrator for more build minutes."),
  builder_missing: checkListener("Let the listener build images, or deploy an image."),
  builder_failed: deploy("Retry. If it happens again, ask an operator to check the server that builds."),
  disk_full: deploy("Make the build smaller or ask an operator to free disk space, then retry."),
  start_refused: deploy("Correct the start command or the image, then deploy again."),
  exited: readLog("Read the log of its replicas, then deploy a fix."),
  never_healthy: readLog("Read the log of its replicas and check the health path and the port, then deploy a fix."),
  out_of_memory: deploy("Reduce what the agent loads, or give it more memory by a larger size, then deploy again."),
  out_of_disk: deploy("Reduce what the agent writes or ask an operator for more disk, then deploy again."),
  port_taken: deploy("Deploy again. Pierhead then chooses another port."),
  init_failed: readLog("Read the log of the init container, then deploy a fix."),
  no_capacity: deploy(
    "Give the cluster or the machine of its listener more room and retry, or deploy again with less CPU and memory.",
  ),
  evicted: deploy("Give the nodes more memory and disk, or deploy again with lower requests."),
  policy_refused: deploy("Raise the quota or change the policy of the cluster, then deploy again."),
  storage_missing: deploy("Give the cluster a StorageClass with room for the database, then deploy again."),
  engine_refused: checkListener("Check the container engine on the machine of its listener."),
  cluster_unreachable: checkListener("Check that its listener reaches the cluster."),
  lost: deploy("Deploy again. If it happens again, check the machine of its listener."),
  listener_gone: checkListener("Check that its listener runs and reaches this server, then retry."),
  timed_out: deploy("Retry. If it happens again, read the message for what took so long."),
};

const passing = new Set<FailureCode>([
  "build_quota_exceeded",
  "builder_failed",
  "builder_missing",
  "cluster_unreachable",
  "database_unavailable",
  "disk_full",
  "engine_refused",
  "evicted",
  "fetch_failed",
  "listener_gone",
  "lost",
  "no_capacity",
  "policy_refused",
  "port_taken",
  "repository_unreachable",
  "storage_missing",
  "timed_out",
]);

/** Whether the same source and settings may succeed, for some failures only after a change of the machine or the cluster. */
export const mayPass = (code: FailureCode): boolean => passing.has(code);

/** Returns what a user can do about a failure. */
export function actionOf({ code, variables }: Failure): NextAction {
  // A newer version, which an operator took back, may have recorded a code that this one does not know.
  if (code !== "variables_missing") return actions[code] ?? actions.exited;
  const [first = "", ...others] = variables;
  const text =
    others.length === 0
      ? `Set the variable ${first}. The same code then runs with it.`
      : `Set the variables ${variables.join(", ")}. The same code then runs with them.`;
  return { kind: "set_variable", text };
}
