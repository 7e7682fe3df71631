import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { DeploymentReplicas } from "../../contract/deployments/replica.ts";
import type { MetricPoint } from "../../contract/logs/metrics.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { engineReasons, engines } from "../../domain/engines.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";
import { fittedTo } from "../terminal/choose.ts";
import { maskSecrets } from "../terminal/mask.ts";
import { harmless, type Style } from "../terminal/terminal.ts";
import { age, columns, count, shortId } from "../terminal/text.ts";
import { describeCode, describeMaker, describeReason } from "./describe-revision.ts";
import { findDeployment } from "./find-deployment.ts";
import { followRevision } from "./follow-revision.ts";
import { healthLines, healthText } from "./health.ts";

/**
 * Shows a deployment and its latest revisions. With `--watch`, follows the newest revision to its end. With `--check`, its health
 * decides the exit code.
 */
export async function status(
  session: Session,
  [name = ""]: string[],
  options: { watch?: boolean; timeout?: string; check?: boolean },
): Promise<void> {
  const deployment = await findDeployment(session, name);
  if (options.watch && deployment.latest_revision_id !== null) {
    const timeout = options.timeout === undefined ? {} : { timeout: options.timeout };
    return followRevision(session, deployment, deployment.latest_revision_id, { wait: true, ...timeout });
  }
  const client = await session.client();
  const { signal } = session;
  const ids = { deployment_id: deployment.id };
  const [page, replicas, metrics] = await Promise.all([
    client.listRevisions({ ...ids, limit: 5 }, { signal }),
    client.listReplicas(ids, { signal }),
    client.readMetrics(ids, { signal }),
  ]);
  const runs = runsOf(metrics.points);
  const answer = { deployment: maskSecrets(deployment), revisions: page.resources, replicas, runs };
  session.answer(answer, () =>
    session.terminal.asStarted(render(session, deployment, { revisions: page.resources, replicas, runs })),
  );
  if (options.check) checkHealth(deployment);
}

/** @throws CliFailure unless the deployment answers, or will with its next request. */
function checkHealth({ name, health: { status: word } }: Deployment): void {
  if (word === "live" || word === "sleeping") return;
  const isUnderWay = word === "deploying" || word === "deleting";
  throw new CliFailure(`The status of ${name} is ${word.replace("_", "-")}.`, {
    exitCode: isUnderWay ? exitCodes.pending : exitCodes.error,
    hints: [`See why: pierhead why ${name}`],
  });
}

interface Runs {
  waiting: number;
  running: number;
  /** In the last hour. */
  failed: number | null;
  recovered: number | null;
}

interface Found {
  revisions: Revision[];
  replicas: DeploymentReplicas;
  runs: Runs | null;
}

/** Returns the runs of the last minutes. @param points of the last hour, a minute each. @returns null if the server reports none. */
function runsOf(points: MetricPoint[]): Runs | null {
  const latest = points.slice(-currentMinutes).findLast(({ runs_waiting: waiting }) => waiting != null);
  if (latest === undefined) return null;
  const inHour = (read: (point: MetricPoint) => number | null) => {
    const counts = points.map(read).filter((count) => count != null);
    return counts.length === 0 ? null : counts.reduce((sum, count) => sum + count, 0);
  };
  return {
    waiting: latest.runs_waiting ?? 0,
    running: latest.runs_running ?? 0,
    failed: inHour((point) => point.runs_failed),
    recovered: inHour((point) => point.runs_recovered),
  };
}

/** A minute is complete a minute after its end at the latest. Older ones are not current. */
const currentMinutes = 3;

function render(session: Session, deployment: Deployment, { revisions, replicas, runs }: Found): string {
  const { paintOut } = session.terminal;
  const health = healthText(deployment);
  const facts = columns([
    ["  Health", paintOut(health.style, health.text)],
    ["  URL", harmless(deployment.url ?? "none yet")],
    ["  Source", describeSource(deployment)],
    ...engineFacts(deployment, revisions),
    ...chosenEngine(deployment, revisions),
    ...replicaFacts(replicas),
    ...runFacts(runs),
    ["  Type", deployment.source_config.deployment_type ?? "-"],
    ["  Created", `${age(deployment.created_at)} ago`],
    ["  Id", deployment.id],
  ]);
  const title = paintOut("bold", harmless(deployment.display_name ?? deployment.name));
  const advice = healthLines(deployment, paintOut).map((line) => `  ${line.replaceAll("\n", "\n  ")}`);
  return [
    title,
    facts,
    "",
    ...(advice.length === 0 ? [] : [...advice, ""]),
    ...describeRevisions(session, deployment, revisions),
  ].join("\n");
}

/** The engine of the revision that serves, or of the newest one. */
function engineFacts({ active_revision_id: active }: Deployment, revisions: Revision[]): string[][] {
  const { engine = null, engine_because: because = null } =
    revisions.find(({ id }) => id === active) ?? revisions[0] ?? {};
  if (engine === null) return [];
  const reason = because === null ? "" : ` (${engineReasons[because]})`;
  return [["  Engine", `${engine}: ${engines[engine].title}${reason}`]];
}

/** The engine that the next deploys get, when it is not the one that serves. */
function chosenEngine({ name, active_revision_id: active, source_config: config }: Deployment, revisions: Revision[]) {
  const { engine } = config;
  if (engine == null || revisions.find(({ id }) => id === active)?.engine === engine) return [];
  return [
    ["  Chosen", `engine ${engine} for each deploy. To remove the choice: pierhead change ${name} --engine default`],
  ];
}

/** The queue of an engine that counts its runs. */
function runFacts(runs: Runs | null): string[][] {
  if (runs === null) return [];
  const { waiting, running, failed, recovered } = runs;
  const ended = (count: number | null, word: string) => (count ? [`${count} ${word}`] : []);
  const past = [...ended(failed, "failed"), ...ended(recovered, "recovered")].join(", ");
  return [["  Runs", `${waiting} waiting, ${running} running${past === "" ? "" : `; in the last hour ${past}`}`]];
}

/** How many replicas run, and why one ended last. `pierhead ps` shows each of them. */
function replicaFacts({ replicas, last_exit: exit, last_exit_at: exitedAt }: DeploymentReplicas): string[][] {
  const ready = replicas.filter(({ phase }) => phase === "ready").length;
  const restarts = Math.max(0, ...replicas.map((replica) => replica.restarts));
  const again = restarts === 0 ? "" : `, ${count(restarts, "restart")}`;
  const running = replicas.length === 0 ? [] : [["  Replicas", `${ready} of ${replicas.length} ready${again}`]];
  const [message = ""] = harmless(exit?.message ?? "").split("\n");
  return exitedAt == null ? running : [...running, ["  Last exit", `${age(exitedAt)} ago: ${message}`]];
}

function describeRevisions({ terminal, context }: Session, deployment: Deployment, revisions: Revision[]): string[] {
  if (revisions.length === 0) return ["  No revision yet."];
  const rows = revisions.map((revision) => [
    `  ${revision.number ?? "-"}`,
    shortId(revision.id),
    revision.id === deployment.active_revision_id ? "active" : "", // whether it serves is the health above
    revision.status,
    describeReason(revision),
    describeMaker(revision),
    `${age(revision.created_at)} ago`,
    describeCode(revision),
  ]);
  const head = ["  NO", "REVISION", "", "STATUS", "WHY", "BY", "CREATED", "FROM"];
  const lines = columns(fittedTo(context.stdout, [head, ...rows])).split("\n");
  const painted = lines.map((line, row) => {
    const revision = revisions[row - 1];
    return revision === undefined
      ? terminal.paintOut("dim", line)
      : line.replace(revision.status, terminal.paintOut(colorOf(revision), revision.status));
  });
  const newest = revisions[0];
  const isFailed = newest !== undefined && newest.status !== "DEPLOYED";
  const message = isFailed ? newest.status_message : null;
  // The advice above the revisions has the message already, behind a sentence about what still serves.
  const { health } = deployment as Partial<Deployment>;
  const [said = ""] = message?.split("\n") ?? [];
  const isSaid = health?.next_action != null && (health.message?.split("\n")[0] ?? "").endsWith(said);
  const shown = message === null || isSaid ? [] : harmless(message).split("\n");
  return shown.length === 0 ? painted : [...painted, "", ...shown.map((line) => `  ${line}`)];
}

function colorOf({ status }: Revision): Style {
  if (status === "DEPLOYED") return "green";
  if (status.endsWith("_FAILED")) return "red";
  return status === "SKIPPED" || status === "INTERRUPTED" ? "dim" : "yellow";
}

function describeSource({ source, source_config: config }: Deployment): string {
  const where = config.repo_url ?? config.template_id;
  const what = sources[source] ?? source;
  return where === null ? what : `${what} ${harmless(where)}`;
}

const sources: Readonly<Record<string, string>> = {
  github: "git repository",
  internal_source: "uploaded directory",
  internal_template: "template",
  internal_docker: "image",
  external_docker: "image",
};
