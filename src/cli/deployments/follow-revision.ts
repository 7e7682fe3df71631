import { type Client, isSettled, WaitTimeout } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { LogEntry } from "../../contract/logs/log.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import type { Revision, RevisionStatus } from "../../contract/revisions/revision.ts";
import { actionOf } from "../../domain/failures.ts";
import { CliFailure, describeFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";
import { maskSecrets } from "../terminal/mask.ts";
import { createSteps, type Steps } from "../terminal/steps.ts";
import { harmless } from "../terminal/terminal.ts";
import { duration, parseDuration, shortId } from "../terminal/text.ts";
import { callsOf } from "./calls-of.ts";
import { wayOut } from "./way-out.ts";

export interface FollowOptions {
  /** Commander's form of `--no-wait`. */
  wait: boolean;
  timeout?: string;
  /** Only of commands that have the option `--dry-run`. */
  dryRun?: boolean;
}

/** Names of the steps of a revision. Steps that a revision skips are not shown. */
export const revisionSteps = ["Prepare", "Queue", "Build", "Roll out"] as const;

const stepOf: Partial<Record<RevisionStatus, (typeof revisionSteps)[number]>> = {
  CREATING: "Prepare",
  QUEUED: "Queue",
  AWAITING_BUILD: "Build",
  BUILDING: "Build",
  AWAITING_DEPLOY: "Roll out",
  DEPLOYING: "Roll out",
};

const notes: Partial<Record<RevisionStatus, string>> = {
  AWAITING_BUILD: "waiting for a free builder",
  UNKNOWN: "no contact with the listener",
};

/**
 * Follows a revision to its end. Prints the URL to stdout and the progress to stderr.
 *
 * @throws CliFailure with exit code 1 (failed, with the message and the end of the build log as the reason), 2 (interrupted, skipped,
 *   or Ctrl-C, after which the server continues), or 8 (`--no-wait` or timeout).
 */
export async function followRevision(
  session: Session,
  deployment: Deployment,
  revisionId: string,
  options: FollowOptions,
  steps: Steps = createSteps(session.terminal, revisionSteps),
): Promise<void> {
  const client = await session.client();
  const ids = { deployment_id: deployment.id, revision_id: revisionId };
  if (!options.wait) steps.finish();
  const revision = options.wait
    ? await wait(session, deployment, ids, options, steps)
    : await client.getRevision(ids, { signal: session.signal });
  if (revision.status !== "DEPLOYED") return explainEnd(session, deployment, revision, steps);
  steps.begin("Roll out"); // a fast rollout happens between two polls
  steps.finish();
  const served = await client.getDeployment(ids, { signal: session.signal });
  const { terminal } = session;
  terminal.say(`${terminal.paintErr("green", "Deployed")} ${served.name} in ${duration(steps.elapsedMs())}`);
  session.answer(outcome(served, revision, steps), () => (served.url === null ? undefined : harmless(served.url)));
  const next = [...(await callsOf(served, revision, session.signal)), `pierhead logs ${served.name} -f`];
  terminal.say(`  Revision  ${shortId(revision.id)}\n  Next      ${next.join("\n            ")}`);
}

async function wait(
  session: Session,
  deployment: Deployment,
  ids: { deployment_id: string; revision_id: string },
  options: FollowOptions,
  steps: Steps,
): Promise<Revision> {
  const client = await session.client();
  const stopLog = session.options.verbose ? streamBuildLog(client, ids, session) : undefined;
  const onChange = ({ status, status_message: message }: Revision) => {
    const step = stepOf[status];
    if (step !== undefined) steps.begin(step);
    if (!isSettled(status)) steps.note(harmless(message ?? notes[status] ?? "").split("\n")[0] ?? "");
  };
  try {
    const timeout = options.timeout === undefined ? {} : { timeoutMs: parseDuration(options.timeout) };
    return await client.waitForRevision(ids, { ...timeout, signal: session.signal, onChange });
  } catch (error) {
    steps.close();
    if (session.signal.aborted || error instanceof WaitTimeout) throw goesOn(session, deployment, error);
    throw error;
  } finally {
    await stopLog?.();
  }
}

/** Returns the failure for a wait that ended before the revision did. */
function goesOn(session: Session, { name }: Deployment, error: unknown): CliFailure {
  const isCancelled = session.signal.aborted;
  const what = isCancelled ? "Stopped waiting. The revision goes on in the server." : (error as Error).message;
  return new CliFailure(what, {
    exitCode: isCancelled ? exitCodes.cancelled : exitCodes.pending,
    isNotice: true,
    hints: [
      `Keep watching: pierhead status ${name} --watch`,
      `Show progress: pierhead why ${name}`,
      `Cancel it:     pierhead cancel ${name}`,
    ],
  });
}

async function explainEnd(session: Session, deployment: Deployment, revision: Revision, steps: Steps): Promise<void> {
  const { name } = deployment;
  const { status, id } = revision;
  if (status.endsWith("_FAILED")) steps.fail();
  else steps.close();
  if (status === "INTERRUPTED" || status === "SKIPPED") {
    const because = revision.status_message ?? (status === "SKIPPED" ? "A newer revision replaced it." : null);
    const hints = [`Show revisions: pierhead status ${name}`];
    throw outcomeFailure(session, deployment, revision, steps, `Revision ${shortId(id)} was ${status.toLowerCase()}.`, {
      exitCode: exitCodes.cancelled,
      because,
      hints,
    });
  }
  if (!status.endsWith("_FAILED")) {
    const hints = [`Watch it: pierhead status ${name} --watch`];
    throw outcomeFailure(session, deployment, revision, steps, `Revision ${shortId(id)} is ${status}.`, {
      exitCode: exitCodes.pending,
      hints,
    });
  }
  // A message of several lines already contains the end of the log.
  const needsLog = status === "BUILD_FAILED" && !revision.status_message?.includes("\n");
  const log = needsLog ? await endOfBuildLog(session, revision) : [];
  const because = [revision.status_message ?? "The server gave no reason.", ...log].join("\n");
  const type = status === "DEPLOY_FAILED" ? "" : " --build";
  // A revision that failed before its build has no log.
  const hints =
    status === "CREATE_FAILED" ? [] : [`Full log:      pierhead logs ${name}${type} --revision ${shortId(id)}`];
  if (revision.failure != null) hints.unshift(...nextSteps(deployment, revision, revision.failure));
  const { active_revision_id: active, health } = deployment as Partial<Deployment>;
  if (active != null && health?.status !== "crash_looping") {
    // A server with exclusive state stopped for the rollout of the new revision.
    const hasStopped = status === "DEPLOY_FAILED" && revision.rollout === "handover";
    hints.push(`${hasStopped ? "Starts again: " : "Still serving:"} revision ${shortId(active)}`);
  }
  throw outcomeFailure(session, deployment, revision, steps, `The deploy of ${name} ended in ${status}.`, {
    because,
    hints,
  });
}

/** Returns what to do about a failure, with the command unless it only shows the log that the hints name. */
function nextSteps(deployment: Deployment, { id }: Revision, failure: Failure): string[] {
  const command = wayOut({ ...deployment, latest_revision_id: id }, failure);
  const isLog = command === null || command.startsWith("pierhead logs");
  return [actionOf(failure).text, ...(isLog ? [] : [`Next:          ${command}`])];
}

/** Prints the `--json` answer, which includes the deployment and the revision, and returns the failure. */
function outcomeFailure(
  session: Session,
  deployment: Deployment,
  revision: Revision,
  steps: Steps,
  what: string,
  more: Partial<Pick<CliFailure, "exitCode" | "because" | "hints">>,
): CliFailure {
  const failure = new CliFailure(what, more);
  if (session.options.json) {
    const error = describeFailure(failure, session.terminal.asStarted);
    session.answer({ ...outcome(deployment, revision, steps), error }, () => undefined);
  }
  return failure;
}

function outcome(deployment: Deployment, revision: Revision, steps: Steps) {
  return { deployment: maskSecrets(deployment), revision, elapsed_ms: steps.elapsedMs() };
}

/** Prints the answer of a command after which no revision is to be waited for. */
export function answerWithoutRevision(session: Session, deployment: Deployment): void {
  session.answer({ deployment: maskSecrets(deployment), revision: null, elapsed_ms: 0 }, () => undefined);
}

/** Enough lines for the error of a package manager and its cause. */
const tailLines = 30;

/** Returns the end of a build log, unless it was shown already. */
export async function endOfBuildLog(session: Session, revision: Revision): Promise<string[]> {
  try {
    const client = await session.client();
    const query = { deployment_id: revision.deployment_id, revision_id: revision.id, type: "build" as const };
    const entries = await client.tailLogs(query, tailLines, session.signal);
    if (entries.length === 0 || session.options.verbose) return [];
    return ["", "The build log ends with:", ...entries.map(({ message }) => `  ${message}`)];
  } catch {
    return []; // the status message is a sufficient reason without the log
  }
}

/** Streams the build log. The returned function waits for its last line and stops. */
function streamBuildLog(client: Client, ids: { deployment_id: string; revision_id: string }, session: Session) {
  const abort = new AbortController();
  const print = async () => {
    const signal = AbortSignal.any([abort.signal, session.signal]);
    for await (const entry of client.followLogs({ ...ids, type: "build" }, { signal })) {
      session.terminal.say(session.terminal.paintErr("dim", harmless(lineOf(entry))));
    }
  };
  const printing = print().catch(() => undefined);
  return async () => {
    // The stream of a finished build ends. A build that never started has no stream, so the wait is limited.
    const timer = setTimeout(() => abort.abort(), 2_000).unref();
    await printing;
    clearTimeout(timer);
  };
}

const lineOf = ({ message }: LogEntry) => `  | ${message}`;
