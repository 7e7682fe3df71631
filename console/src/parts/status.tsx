import type { DeploymentStatus } from "../../../src/contract/deployments/deployment.ts";
import type { RevisionStatus } from "../../../src/contract/revisions/revision.ts";

type Tone = "good" | "bad" | "warn" | "busy" | "idle";

const tones: Record<string, Tone> = {
  READY: "good",
  DEPLOYED: "good",
  CONNECTED: "good",
  delivered: "good",
  active: "good",
  CREATE_FAILED: "bad",
  BUILD_FAILED: "bad",
  DEPLOY_FAILED: "bad",
  DISCONNECTED: "bad",
  UNKNOWN: "bad",
  failed: "bad",
  CREATING: "busy",
  QUEUED: "busy",
  AWAITING_BUILD: "busy",
  BUILDING: "busy",
  AWAITING_DEPLOY: "busy",
  DEPLOYING: "busy",
  AWAITING_DATABASE: "busy",
  AWAITING_DELETE: "busy",
  AWAITING_FINAL_DELETE: "busy",
  pending: "busy",
  live: "good",
  deploying: "busy",
  degraded: "warn",
  crash_looping: "bad",
  deleting: "busy",
  unknown: "warn",
};

/** A status as words, with a coloured dot that is never the only sign. */
export function Status({ of }: { of: DeploymentStatus | RevisionStatus | (string & {}) }) {
  return (
    <span className={`status ${tones[of] ?? "idle"}`}>
      <span className="dot" aria-hidden="true" />
      {statusText(of)}
    </span>
  );
}

/** Returns a status of the API as words, such as `Build failed` for `BUILD_FAILED`. */
export function statusText(status: string): string {
  if (status === "crash_looping") return "Crash-looping";
  const words = status.toLowerCase().replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const finished = new Set(["DEPLOYED", "CREATE_FAILED", "BUILD_FAILED", "DEPLOY_FAILED", "SKIPPED", "INTERRUPTED"]);

/** Returns whether the revision is still in progress. */
export const isInProgress = (status: RevisionStatus) => !finished.has(status) && status !== "UNKNOWN";

export const isFailure = (status: RevisionStatus) => status.endsWith("_FAILED");
