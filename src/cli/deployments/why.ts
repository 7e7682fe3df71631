import type { DeploymentDebug } from "../../contract/administration/debug.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { isReturning } from "../../domain/deployment-health.ts";
import type { Session } from "../session.ts";
import { maskSecrets } from "../terminal/mask.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, columns } from "../terminal/text.ts";
import { findDeployment } from "./find-deployment.ts";
import { healthLines, healthText } from "./health.ts";
import { describeRecent, type RecentFailures, readRecent, recentMinutes } from "./recent-failures.ts";

/**
 * Shows how a deployment is, what the server does next and why, and while something is in progress what it did last. With
 * `--internals`, also that and the records it decides from.
 */
export async function why(session: Session, [name = ""]: string[], options: { internals?: boolean }): Promise<void> {
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const [debug, recent] = await Promise.all([
    client.debugDeployment({ deployment_id: deployment.id }, { signal: session.signal }),
    readRecent(client, deployment, session.signal),
  ]);
  session.answer({ ...maskSecrets(debug), recent }, () =>
    session.terminal.asStarted(render(session, { deployment, debug, recent }, options.internals === true)),
  );
}

interface Explained {
  deployment: Deployment;
  debug: DeploymentDebug;
  recent: RecentFailures | null;
}

function render(session: Session, { deployment, debug, recent }: Explained, showsInternals: boolean): string {
  const { paintOut } = session.terminal;
  const passes = debug.outcomes.map((pass) => [
    `  ${age(pass.at)} ago`,
    pass.kind,
    `${Math.round(pass.duration_ms)} ms`,
    harmless(pass.because),
  ]);
  const internals: [string, string][] = [
    ["Desired", facts(debug.desired)],
    ["Observed", facts(debug.observed)],
    ["Assignment", facts(debug.assignment)],
    ["Lease", facts(debug.lease)],
  ];
  const failures = recent === null ? [] : describeRecent(deployment.name, recent);
  const sections: [string, string][] = [
    ...(failures.length === 0
      ? []
      : [[`Last ${recentMinutes} minutes`, failures.map((line) => `  ${line}`).join("\n")] as [string, string]]),
    ["Next step of the server", `  ${describeNextStep(deployment, debug)}`],
    ...(showsInternals || isWaiting(deployment)
      ? [["Latest passes", passes.length === 0 ? "  none yet" : columns(passes)] as [string, string]]
      : []),
    ...(showsInternals ? internals : []),
  ];
  const health = healthText(deployment);
  const title = `${paintOut("bold", harmless(deployment.name))}  ${paintOut(health.style, health.text)}`;
  return [
    title,
    ...healthLines(deployment, paintOut),
    ...sections.flatMap(([head, text]) => ["", paintOut("dim", head), text]),
  ].join("\n");
}

/** What the server does in each step that it can plan. */
const doings: Readonly<Record<string, string>> = {
  provision: "Create the database",
  resolve: "Find out the commit or the digest of the source",
  skip: "Skip revisions that a newer one replaced",
  build: "Build the newest revision",
  cancelBuild: "Stop a build",
  acceptBuild: "Accept the finished build",
  rollOut: "Start the replicas of the newest revision",
  finishRollout: "Finish the rollout",
  failRollout: "Fail the rollout",
  extendRollout: "Wait longer for the rollout",
  assignDelete: "Stop and remove the replicas",
  finalize: "Delete what was created for the deployment",
  deleteRow: "Delete the deployment",
  recordHealth: "Record the health",
  inspectBranch: "Look for new commits on the branch",
  reportToHost: "Report to the code host",
};

function describeNextStep({ health }: Deployment, { next_step: { kind, because } }: DeploymentDebug): string {
  const reason = harmless(because);
  if (kind === "wait") return `Wait: ${reason}`;
  if (kind !== "none") return `${doings[kind] ?? kind}${reason === "" ? "" : `: ${reason}`}`;
  if (health?.status === "crash_looping")
    return "Start it again after each exit, at growing intervals, until you change something";
  if (health !== undefined && isReturning(health))
    return "Start the revision before again. The newest one stays failed until you change something";
  if (health?.status === "failed" || reasonsToChange.has(health?.reason ?? ""))
    return "None until you change something";
  if (health?.status === "degraded") return "None: the listener starts replicas again until enough are ready";
  return `None: ${reason}`;
}

/** Reasons of a degraded deployment that do not pass without a change. */
const reasonsToChange = new Set(["NewRevisionFailed", "Drifted"]);

/** Whether the server has something to do, so that its latest passes say why it is not done. */
const isWaiting = ({ health }: Deployment) =>
  health === undefined || ["deploying", "deleting", "unknown"].includes(health.status);

/** Formats one field per line, with nested fields indented below their name. */
function facts(record: Record<string, unknown> | null): string {
  if (record === null) return "  none";
  const lines = describe(maskSecrets(record), "  ");
  return lines.length === 0 ? "  empty" : lines.join("\n");
}

function describe(value: object, indent: string): string[] {
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]) => {
    const label = Array.isArray(value) ? `${indent}-` : `${indent}${name}:`;
    if (typeof inner !== "object" || inner === null) return [`${label} ${harmless(String(inner ?? "none"))}`];
    const nested = describe(inner, `${indent}  `);
    return nested.length === 0 ? [`${label} none`] : [label, ...nested];
  });
}
