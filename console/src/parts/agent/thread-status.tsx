import { Light } from "../status.tsx";

const words: Record<string, string> = {
  interrupted: "Waiting for you",
  busy: "Running",
  running: "Running",
  pending: "Queued",
  idle: "Idle",
  success: "Done",
  error: "Error",
  timeout: "Timed out",
};

/** The names of the lights that show these states. */
const lights: Record<string, string> = {
  busy: "deploying",
  running: "deploying",
  pending: "deploying",
  idle: "sleeping",
  success: "live",
  error: "failed",
  timeout: "failed",
};

const tones: Record<string, string> = { deploying: "busy", sleeping: "idle", live: "good", failed: "bad" };

export const threadWord = (status: string | undefined): string => words[status ?? ""] ?? status ?? "Unknown";

/** The light of a thread or a run. What waits for a person has the colour of the lamp. */
export function ThreadLight({
  status = "idle",
  isSilent = false,
}: {
  status?: string | undefined;
  isSilent?: boolean;
}) {
  return (
    <>
      {status === "interrupted" ? (
        <svg className="light lamp" width="10" height="10" viewBox="0 0 10 10" aria-hidden="true">
          <circle cx="5" cy="5" r="2.4" fill="currentColor" />
          <circle cx="5" cy="5" r="4.2" fill="none" stroke="currentColor" strokeWidth="1.2" opacity=".55" />
        </svg>
      ) : (
        <Light of={lights[status] ?? "unknown"} />
      )}
      {!isSilent && <span className="sr">{threadWord(status)}</span>}
    </>
  );
}

export function ThreadStatusText({ status }: { status: string | undefined }) {
  const tone = status === "interrupted" ? "warn" : (tones[lights[status ?? ""] ?? ""] ?? "idle");
  return (
    <span className={`status ${tone}`}>
      <ThreadLight status={status} isSilent />
      {threadWord(status)}
    </span>
  );
}
