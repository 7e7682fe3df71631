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
  "EngineUnavailable",
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

/** The failure of a program of the build. */
export class ProgramFailure extends BuildFailure {
  /** Null when a signal killed it. */
  readonly exitCode: number | null;
  constructor(reason: BuildFailureReason, message: string, exitCode: number | null) {
    super(reason, message);
    this.exitCode = exitCode;
  }
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
