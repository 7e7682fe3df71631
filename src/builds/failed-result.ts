import { GitFailure } from "../integrations/git-failure.ts";
import { describeError } from "../telemetry/log.ts";
import type { BuildResult } from "./build.ts";
import { BuildFailure, diskFullMessage } from "./failure.ts";

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

function isDiskFull(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === "ENOSPC" || code === "EDQUOT";
}
