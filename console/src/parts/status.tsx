import type { DeploymentStatus } from "../../../src/contract/deployments/deployment.ts";
import type { RevisionStatus } from "../../../src/contract/revisions/revision.ts";

type Tone = "good" | "bad" | "warn" | "busy" | "idle";

const tones: Record<string, Tone> = {
  READY: "good",
  DEPLOYED: "good",
  CONNECTED: "good",
  delivered: "good",
  active: "good",
  expiring: "warn",
  draining: "warn",
  CREATE_FAILED: "bad",
  BUILD_FAILED: "bad",
  DEPLOY_FAILED: "bad",
  DISCONNECTED: "bad",
  UNKNOWN: "idle",
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
  unknown: "idle",
};

type Shape = "solid" | "half" | "square" | "loop" | "wedge" | "ring" | "dash";

/** Shapes that differ from the usual one of their tone, so that no status is known by its colour alone. */
const shapes: Record<string, Shape> = {
  crash_looping: "loop",
  sleeping: "ring",
  replaced: "solid",
  unknown: "dash",
  UNKNOWN: "dash",
  SKIPPED: "dash",
  INTERRUPTED: "dash",
  revoked: "dash",
  expired: "dash",
};
const usual: Record<Tone, Shape> = { good: "solid", bad: "square", warn: "wedge", busy: "half", idle: "ring" };

/** The light of a status: a colour and a shape. A word stands beside it. */
export function Light({ of }: { of: string }) {
  const tone = tones[of] ?? "idle";
  const shape = shapes[of] ?? usual[tone];
  return (
    <svg className={`light ${tone} ${shape}`} width="10" height="10" viewBox="0 0 10 10" aria-hidden="true">
      {shape === "solid" && <circle cx="5" cy="5" r="4" fill="currentColor" />}
      {shape === "ring" && <circle cx="5" cy="5" r="3.25" fill="none" stroke="currentColor" strokeWidth="1.5" />}
      {shape === "square" && <rect x="1.2" y="1.2" width="7.6" height="7.6" rx="1.4" fill="currentColor" />}
      {shape === "wedge" && <path d="M5 .9 9.5 9h-9z" fill="currentColor" strokeLinejoin="round" />}
      {shape === "dash" && <rect x="1" y="4" width="8" height="2" rx="1" fill="currentColor" />}
      {shape === "half" && (
        <>
          <circle cx="5" cy="5" r="3.9" fill="none" stroke="currentColor" strokeWidth="1.4" opacity=".35" />
          <path d="M5 1.1A3.9 3.9 0 0 1 8.9 5" fill="none" stroke="currentColor" strokeWidth="1.6" />
        </>
      )}
      {shape === "loop" && (
        <>
          <circle cx="5" cy="5" r="2" fill="currentColor" />
          <path d="M9 5a4 4 0 1 1-1.2-2.8" fill="none" stroke="currentColor" strokeWidth="1.4" />
        </>
      )}
    </svg>
  );
}

/** A status as a word, with a light that is never the only sign. */
export function Status({
  of,
  text,
  isPill = false,
}: {
  of: DeploymentStatus | RevisionStatus | (string & {});
  /** Another word than that of the status. */
  text?: string;
  isPill?: boolean;
}) {
  return (
    <span className={`status ${tones[of] ?? "idle"} ${isPill ? "pill" : ""}`}>
      <Light of={of} />
      {text ?? statusText(of)}
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
