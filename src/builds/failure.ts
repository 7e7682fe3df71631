import { GitFailure } from "../integrations/git-failure.ts";
import { describeError } from "../telemetry/log.ts";
import type { BuildResult } from "./build.ts";

/** Why a build failed. Stable: clients name them, and docs/reference/builds.md explains each one (a test compares). */
export const buildFailureReasons = [
  "ArchiveRefused",
  "BuildFailed",
  "BuilderFailed",
  "Cancelled",
  "CommandInvalid",
  "ConfigInvalid",
  "ConfigMissing",
  "DiskFull",
  "FetchFailed",
  "InstallFailed",
  "Timeout",
  "ToolchainFailed",
  "Unsupported",
] as const;

export type BuildFailureReason = (typeof buildFailureReasons)[number];

/** A failure that the user (or, for `BuilderFailed`, the operator) can understand and act on. */
export class BuildFailure extends Error {
  readonly reason: BuildFailureReason;
  constructor(reason: BuildFailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "BuildFailure";
    this.reason = reason;
  }
}

export type FailedResult = Extract<BuildResult, { ok: false }>;

/** The last line of the log: the output that the message quotes stands above it already. */
export const failureLine = ({ reason, message }: FailedResult) => `${reason}: ${message.split("\n")[0]}`;

/** The result a thrown error means. */
export function failedResult(error: unknown): FailedResult {
  if (error instanceof BuildFailure) return { ok: false, reason: error.reason, message: error.message };
  if (error instanceof GitFailure) return { ok: false, reason: "FetchFailed", message: error.message };
  if (isDiskFull(error)) return { ok: false, reason: "DiskFull", message: diskFullMessage };
  return { ok: false, reason: "BuilderFailed", message: `The builder failed: ${describeError(error)}` };
}

/** Used for the finished artifact, and while the build runs. */
export function tooLarge(bytes: number, bytesMax: number): BuildFailure {
  const [has, may] = [bytes, bytesMax].map((size) => Math.ceil(size / 1024 / 1024));
  return new BuildFailure(
    "DiskFull",
    `The build takes ${has} MB of disk and may take ${may} MB. Install fewer or smaller packages, or ask the operator for a higher limit.`,
  );
}

export const diskFullMessage =
  "The disk of the build host is full. An operator has to free space in the data directory; then deploy again.";

function isDiskFull(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === "ENOSPC" || code === "EDQUOT";
}
