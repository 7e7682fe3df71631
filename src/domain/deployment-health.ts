import type { DeploymentStatus } from "../contract/deployments/deployment.ts";
import type { HealthWord, NextAction } from "../contract/deployments/health.ts";
import type { DeploymentReport } from "../contract/listeners/assignment.ts";
import type { RevisionStatus } from "../contract/revisions/revision.ts";
import { isBeingDeleted } from "./deployment-status.ts";
import { sanitizeText } from "./sanitize-text.ts";

/** Exits in a row, each soon after a start, from which a deployment counts as crash-looping. */
export const crashLoopStreak = 3;

/** Characters of a message to keep. The log has the rest. */
export const messageMax = 500;

/** What the health of a deployment depends on. */
export interface HealthFacts {
  status: DeploymentStatus;
  activeRevisionId: string | null;
  /** A revision has no final status yet. */
  isUnderWay: boolean;
  latest: { id: string; status: RevisionStatus; message: string | null } | null;
  /** Replicas that must be ready; 0: the deployment may sleep. */
  replicasMin: number;
  /** What its listener reported last. */
  report: Pick<DeploymentReport, "asleep" | "cause" | "crash_streak" | "replicas" | "serving_revision_id"> | null;
}

export interface Health {
  word: HealthWord;
  reason: string | null;
  message: string | null;
}

/** Health of a deployment whose listener went silent. Its replicas may well be serving. */
export const listenerLost: Health = {
  word: "unknown",
  reason: "ListenerLost",
  message: "Its listener does not report.",
};

/** Derives the health of a deployment. The first rule that fits counts. */
export function healthOf(facts: HealthFacts): Health {
  const { status, activeRevisionId, latest, report } = facts;
  if (isBeingDeleted(status)) return health("deleting");
  if (isCrashLooping(facts)) {
    const cause = report?.cause ?? null;
    return health("crash_looping", cause?.reason ?? "Exited", `It ends soon after each start. ${cause?.message ?? ""}`);
  }
  if (facts.isUnderWay || status === "AWAITING_DATABASE") return health("deploying");
  if (activeRevisionId === null) return healthWithoutActive(latest);
  if (status === "UNKNOWN") return listenerLost;
  if (report === null) return health("unknown", "NoReport", "Its listener has not reported on it yet.");
  return healthOfReplicas(facts, report, activeRevisionId);
}

/** Whether the server that should be serving keeps ending. The last report of a silent listener tells nothing about now. */
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
  if (cause !== null && (isShort || streak === 0)) return health("degraded", cause.reason, cause.message);
  if (ready === 0 && replicasMin === 0) return health("sleeping");
  if (isShort) {
    const message = ready === 0 ? "No replica is ready." : `${ready} of ${replicasMin} replicas are ready.`;
    return health("degraded", "ReplicasMissing", message);
  }
  if (latest !== null && latest.id !== activeRevisionId && failures[latest.status] !== undefined) {
    const message = `The newest revision failed, and the one before still serves. ${latest.message ?? ""}`;
    return health("degraded", "NewRevisionFailed", message);
  }
  return health("live");
}

/** Reasons of revisions that failed. */
const failures: Partial<Record<RevisionStatus, string>> = {
  CREATE_FAILED: "CreateFailed",
  BUILD_FAILED: "BuildFailed",
  DEPLOY_FAILED: "RolloutFailed",
};

function healthWithoutActive(latest: HealthFacts["latest"]): Health {
  if (latest === null) return health("unknown", "NothingDeployed", "Nothing has been deployed yet.");
  const reason = failures[latest.status];
  if (reason !== undefined) return health("failed", reason, latest.message);
  return health("failed", "Stopped", latest.message ?? "The deploy was stopped before anything served.");
}

function health(word: HealthWord, reason: string | null = null, message: string | null = null): Health {
  return { word, reason, message: message === null ? null : shortened(message) };
}

/** Cuts between characters. A half of a surrogate pair could not be stored. */
function shortened(message: string): string {
  return [
    ...sanitizeText(message)
      .trim()
      .slice(0, 2 * messageMax),
  ]
    .slice(0, messageMax)
    .join("");
}

const readLog = { kind: "read_log", text: "Read the log of its replicas, then deploy a fix or roll back." } as const;
const deployAgain = { kind: "deploy", text: "Change the source or the settings, then deploy again." } as const;

/** What to do about each reason. An exit for which the code is the cause has none here: its log says more. */
const actions: Readonly<Record<string, NextAction | null>> = {
  OutOfMemory: {
    kind: "deploy",
    text: "Reduce what the agent loads, or give it more memory by a larger size, then deploy again.",
  },
  OutOfDisk: {
    kind: "deploy",
    text: "Reduce what the agent writes or ask an operator for more disk, then deploy again.",
  },
  NotHealthy: {
    kind: "read_log",
    text: "Read the log of its replicas and check the health path and the port, then deploy a fix or roll back.",
  },
  StartError: { kind: "deploy", text: "Correct the start command or the image, then deploy again." },
  InitFailed: { kind: "read_log", text: "Read the log of the init container, then deploy a fix or roll back." },
  EngineRefused: { kind: "check_listener", text: "Check the container engine on the machine of its listener." },
  PortTaken: { kind: "deploy", text: "Deploy again. Pierhead then chooses another port." },
  Lost: { kind: "deploy", text: "Deploy again. If it happens again, check the machine of its listener." },
  Evicted: { kind: "deploy", text: "Give the nodes more memory and disk, or deploy again with lower requests." },
  Forbidden: { kind: "deploy", text: "Raise the quota or change the policy of the cluster, then deploy again." },
  Storage: { kind: "deploy", text: "Give the cluster a StorageClass with room for the database, then deploy again." },
  BuildFailed: {
    kind: "read_build_log",
    text: "Read the build log, change the source or the settings, then deploy again.",
  },
  RolloutFailed: { kind: "read_log", text: "Read the log of the failed replicas, then deploy again." },
  CreateFailed: deployAgain,
  NewRevisionFailed: { kind: "deploy", text: "Read why the newest revision failed, then deploy again." },
  ReplicasMissing: { kind: "read_log", text: "Read the log of its replicas." },
  Drifted: { kind: "deploy", text: "Undo the change in the cluster, or deploy again." },
  Unschedulable: { kind: "deploy", text: "Give the cluster more room, or deploy again with less CPU and memory." },
  ImagePull: { kind: "deploy", text: "Check the image and the credentials of its registry, then deploy again." },
  ClusterError: { kind: "check_listener", text: "Check that its listener reaches the cluster." },
  Stopped: { kind: "deploy", text: "Deploy again." },
  NothingDeployed: { kind: "deploy", text: "Upload a source or push an image." },
  ListenerLost: { kind: "check_listener", text: "Check that its listener runs and reaches this server." },
  NoReport: { kind: "check_listener", text: "Check that its listener runs and reaches this server." },
};

/** Reasons of which the message says more: a failed revision keeps no other cause than its message. */
const explainedByMessage = new Set(["RolloutFailed", "NewRevisionFailed", "Exited"]);

/** What the messages of `compute` say about causes that have an action of their own. */
const causes: readonly [form: RegExp, action: (name: string) => NextAction | null][] = [
  [
    /\bSet (?:it|each) with: pierhead env set \S+ (\w+)\./,
    (name) => ({
      kind: "set_variable",
      text: `Set the variable ${name.toUpperCase()}. The same code then runs with it.`,
    }),
  ],
  [/more than its memory limit of \d+ MiB/, () => actions["OutOfMemory"] ?? null],
  [/did not answer 200 on/, () => actions["NotHealthy"] ?? null],
];

/** Returns what a user can do about the health of a deployment; null: nothing is to be done. */
export function nextActionOf({ word, reason, message }: Health): NextAction | null {
  if (word === "live" || word === "deploying" || word === "sleeping" || word === "deleting") return null;
  if (explainedByMessage.has(reason ?? "")) {
    for (const [form, actionOf] of causes) {
      const found = form.exec(message ?? "");
      if (found !== null) return actionOf(found[1] ?? "");
    }
  }
  return actions[reason ?? ""] ?? readLog;
}

/** Names the deployment in a command that a cause suggests. The driver that found the cause does not know its name. */
export function withDeploymentName(message: string | null, name: string): string | null {
  return message?.replaceAll("pierhead env set DEPLOYMENT ", `pierhead env set ${name} `) ?? null;
}
