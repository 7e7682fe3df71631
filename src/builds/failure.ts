import { GitFailure } from "../integrations/git-failure.ts";
import { describeError } from "../telemetry/log.ts";
import type { BuildResult } from "./build.ts";

/** Reasons for a failed build. Stable: clients match them, and docs/reference/builds.md explains each one (a test compares). */
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

/** Returns the last line of the log. It omits the output that the message quotes, because the log already contains it. */
export const failureLine = ({ reason, message }: FailedResult) => `${reason}: ${message.split("\n")[0]}`;

/** Converts a thrown error to the result of the build. */
export function failedResult(error: unknown): FailedResult {
  if (error instanceof BuildFailure) return { ok: false, reason: error.reason, message: error.message };
  if (error instanceof GitFailure) return { ok: false, reason: "FetchFailed", message: error.message };
  if (isDiskFull(error)) return { ok: false, reason: "DiskFull", message: diskFullMessage };
  return { ok: false, reason: "BuilderFailed", message: `The builder failed: ${describeError(error)}` };
}

/** Returns the failure of a build that exceeds its disk limit, either while it runs or with its finished artifact. */
export function tooLarge(bytes: number, bytesMax: number): BuildFailure {
  const [has, may] = [bytes, bytesMax].map((size) => Math.ceil(size / 1024 / 1024));
  return new BuildFailure(
    "DiskFull",
    `The build needs ${has} MB of disk, but the limit is ${may} MB. Install fewer or smaller packages, for example PyTorch without GPU libraries.`,
  );
}

export const diskFullMessage =
  "The disk of the build host is full. Ask an operator to free space in the data directory, then deploy again.";

function isDiskFull(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === "ENOSPC" || code === "EDQUOT";
}
