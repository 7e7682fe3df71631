import { shortenText } from "../base/shorten-text.ts";
import type { DeploymentStatus } from "../contract/deployments/deployment.ts";
import type { HealthWord, NextAction } from "../contract/deployments/health.ts";
import type { DeploymentReport } from "../contract/listeners/assignment.ts";
import type { Failure } from "../contract/revisions/failure.ts";
import type { RevisionStatus } from "../contract/revisions/revision.ts";
import { isBeingDeleted } from "./deployment-status.ts";
import { actionOf, causeFailure, earlierFailure } from "./failures.ts";
import { sanitizeText } from "./sanitize-text.ts";

/** Exits in a row, each soon after a start, from which a deployment counts as crash-looping. */
export const crashLoopStreak = 3;

/** Characters of a message to keep. The log has the rest. */
export const messageMax = 500;

/** The shortest part of a log's last line that is still worth showing. */
const lastLineMin = 80;

/** The newest revision of a deployment. `failure` null: it has not failed, or an earlier version recorded only the message. */
export interface LatestRevision {
  id: string;
  status: RevisionStatus;
  message: string | null;
  failure: Failure | null;
}

/** What the health of a deployment depends on. */
export interface HealthFacts {
  status: DeploymentStatus;
  activeRevisionId: string | null;
  /** A revision has no final status yet. */
  isUnderWay: boolean;
  latest: LatestRevision | null;
  /** Replicas that must be ready; 0: the deployment may sleep. */
  replicasMin: number;
  /** What its listener reported last. */
  report: Pick<DeploymentReport, "asleep" | "cause" | "crash_streak" | "replicas" | "serving_revision_id"> | null;
}

export interface Health {
  word: HealthWord;
  reason: string | null;
  message: string | null;
  /** The failure behind it; null: there is none, or an earlier version recorded only the message. */
  failure: Failure | null;
}

/** Health of a deployment whose listener went silent. Its replicas may well be serving. */
export const listenerLost: Health = {
  word: "unknown",
  reason: "ListenerLost",
  message: "Its listener does not report.",
  failure: null,
};

/** Derives the health of a deployment. The first rule that fits counts. */
export function healthOf(facts: HealthFacts): Health {
  const { status, activeRevisionId, latest, report } = facts;
  if (isBeingDeleted(status)) return health("deleting");
  if (isCrashLooping(facts)) {
    const { reason = "Exited", message = "", variables } = report?.cause ?? {};
    const failure = causeFailure({ reason, ...(variables && { variables }) });
    return health("crash_looping", reason, `It ends soon after each start. ${message}`, failure);
  }
  if (facts.isUnderWay || status === "AWAITING_DATABASE") return health("deploying");
  if (activeRevisionId === null) return healthWithoutActive(latest);
  if (status === "UNKNOWN") return listenerLost;
  if (report === null) return health("unknown", "NoReport", "Its listener has not reported on it yet.");
  return healthOfReplicas(facts, report, activeRevisionId);
}

/**
 * Whether the server that should be serving keeps ending. The last report of a silent listener says nothing about the
 * present.
 */
function isCrashLooping({ status, activeRevisionId, report }: HealthFacts): boolean {
  if (activeRevisionId === null || report === null || status === "UNKNOWN" || report.asleep) return false;
  return (report.crash_streak ?? 0) >= crashLoopStreak;
}

/** A settled deployment with an active revision and a current report. */
function healthOfReplicas(
  { latest, replicasMin }: HealthFacts,
  { asleep, cause, crash_streak: streak = 0, replicas }: NonNullable<HealthFacts["report"]>,
  activeRevisionId: string,
): Health {
  if (asleep) return health("sleeping");
  const ready = replicas.filter(({ phase, revision_id: id }) => phase === "ready" && id === activeRevisionId).length;
  const isShort = ready < Math.max(1, replicasMin);
  // An exit that the listener has made good is history.
  if (cause !== null && (isShort || streak === 0)) {
    return health("degraded", cause.reason, cause.message, causeFailure(cause));
  }
  if (ready === 0 && replicasMin === 0) return health("sleeping");
  const hasNewestFailed = latest !== null && latest.id !== activeRevisionId && failures[latest.status] !== undefined;
  if (hasNewestFailed) {
    // A server with exclusive local state stops for the new revision, so the one before starts again after a failure.
    const before = ready === 0 ? startingAgain : isShort ? `has ${ready} of ${replicasMin} replicas` : "still serves";
    const message = `The newest revision failed, and the one before ${before}. ${latest.message ?? ""}`;
    return health("degraded", "NewRevisionFailed", message, latest.failure);
  }
  if (isShort) {
    const message = ready === 0 ? "No replica is ready." : `${ready} of ${replicasMin} replicas are ready.`;
    return health("degraded", "ReplicasMissing", message);
  }
  return health("live");
}

const startingAgain = "is starting again";

/** Whether the server still starts replicas of the revision before one that failed, as the message of the health says. */
export const isReturning = ({ reason, message }: { reason: string | null; message: string | null }): boolean =>
  reason === "NewRevisionFailed" && new RegExp(`the one before (?:${startingAgain}|has \\d)`).test(message ?? "");

/** Reasons of revisions that failed. */
const failures: Partial<Record<RevisionStatus, string>> = {
  CREATE_FAILED: "CreateFailed",
  BUILD_FAILED: "BuildFailed",
  DEPLOY_FAILED: "RolloutFailed",
};

function healthWithoutActive(latest: HealthFacts["latest"]): Health {
  if (latest === null) return health("unknown", "NothingDeployed", "Nothing has been deployed yet.");
  const reason = failures[latest.status];
  if (reason !== undefined) return health("failed", reason, latest.message, latest.failure);
  return health("failed", "Stopped", latest.message ?? "The deploy was stopped before anything served.");
}

function health(
  word: HealthWord,
  reason: string | null = null,
  message: string | null = null,
  failure: Failure | null = null,
): Health {
  return {
    word,
    reason,
    message: message === null ? null : shortened(sanitizeText(message).trim()),
    failure,
  };
}

/** Shortens a message, whose first line is a sentence and whose others are the end of a log. The cause is most often in the last of them. */
function shortened(message: string): string {
  const [first = "", ...others] = message.split("\n");
  if (message.length <= messageMax || others.length === 0) return shortenText(message, messageMax);
  const kept: string[] = [];
  let left = messageMax - first.length - "\n…".length;
  for (const line of others.toReversed()) {
    left -= line.length + 1;
    if (left < 0) break;
    kept.unshift(line);
  }
  // Of a long last line, its start is worth more than the lines above it.
  const room = messageMax - first.length - "\n…\n".length;
  if (kept.length === 0 && room >= lastLineMin) kept.push(shortenText(others.at(-1) ?? "", room));
  return kept.length === 0 ? shortenText(message, messageMax) : [first, "…", ...kept].join("\n");
}

/** What to do about reasons that are no failure of a revision or a replica. */
const actions: Readonly<Record<string, NextAction>> = {
  BuildFailed: {
    kind: "read_build_log",
    text: "Read the build log, change the source or the settings, then deploy again.",
  },
  RolloutFailed: { kind: "read_log", text: "Read the log of the failed replicas, then deploy again." },
  CreateFailed: { kind: "deploy", text: "Change the source or the settings, then deploy again." },
  NewRevisionFailed: { kind: "deploy", text: "Read why the newest revision failed, then deploy again." },
  ReplicasMissing: { kind: "read_log", text: "Read the log of its replicas." },
  Drifted: { kind: "deploy", text: "Undo the change in the cluster, or deploy again." },
  Stopped: { kind: "deploy", text: "Deploy again." },
  NothingDeployed: { kind: "deploy", text: "Upload a source or push an image." },
  ListenerLost: { kind: "check_listener", text: "Check that its listener runs and reaches this server." },
  NoReport: { kind: "check_listener", text: "Check that its listener runs and reaches this server." },
};

/** Returns what a user can do about the health of a deployment; null: nothing is to be done. */
export function nextActionOf(
  health: Health,
  { canRollBack = false }: { canRollBack?: boolean } = {},
): NextAction | null {
  const action = actionFor(health);
  if (action === null || !canRollBack) return action;
  return { ...action, text: action.text.replace(/\bdeploy a fix\.$/, "deploy a fix or roll back.") };
}

function actionFor({ word, reason, message, failure }: Health): NextAction | null {
  if (word === "live" || word === "deploying" || word === "sleeping" || word === "deleting") return null;
  const known = failure ?? earlierFailure(reason, message);
  if (known !== null) return actionOf(known);
  return (
    actions[reason ?? ""] ?? {
      kind: "read_log",
      text: "Read the log of its replicas, then deploy a fix.",
    }
  );
}

const namelessCommand = /\bpierhead (env set|change) (?:DEPLOYMENT|NAME)\b/g;

/** Names the deployment in a command that a cause suggests. The driver or build that found the cause does not know its name. */
export function withDeploymentName(message: string | null, name: string): string | null {
  return message?.replaceAll(namelessCommand, (_all, command: string) => `pierhead ${command} ${name}`) ?? null;
}
