import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { DeploymentReplicas } from "../../contract/deployments/replica.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { withDeploymentName } from "../../domain/deployment-health.ts";
import { engines } from "../../domain/engines.ts";
import type { Session } from "../session.ts";
import { maskSecrets } from "../terminal/mask.ts";
import { harmless, type Style } from "../terminal/terminal.ts";
import { age, columns, count, shortId } from "../terminal/text.ts";
import { describeCode, describeMaker, describeReason } from "./describe-revision.ts";
import { findDeployment } from "./find-deployment.ts";
import { followRevision } from "./follow-revision.ts";
import { healthLines, healthText } from "./health.ts";

/** Shows a deployment and its latest revisions. With `--watch`, follows the newest revision to its end. */
export async function status(
  session: Session,
  [name = ""]: string[],
  options: { watch?: boolean; timeout?: string },
): Promise<void> {
  const deployment = await findDeployment(session, name);
  if (options.watch && deployment.latest_revision_id !== null) {
    const timeout = options.timeout === undefined ? {} : { timeout: options.timeout };
    return followRevision(session, deployment, deployment.latest_revision_id, { wait: true, ...timeout });
  }
  const client = await session.client();
  const { signal } = session;
  const ids = { deployment_id: deployment.id };
  const [page, replicas] = await Promise.all([
    client.listRevisions({ ...ids, limit: 5 }, { signal }),
    client.listReplicas(ids, { signal }),
  ]);
  const answer = { deployment: maskSecrets(deployment), revisions: page.resources, replicas };
  session.answer(answer, () => render(session, deployment, page.resources, replicas));
}

function render(session: Session, deployment: Deployment, revisions: Revision[], replicas: DeploymentReplicas): string {
  const { paintOut } = session.terminal;
  const health = healthText(deployment);
  const facts = columns([
    ["  Health", paintOut(health.style, health.text)],
    ["  URL", harmless(deployment.url ?? "none yet")],
    ["  Source", describeSource(deployment)],
    ...engineFacts(deployment, revisions),
    ...replicaFacts(replicas),
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
  const engine = (revisions.find(({ id }) => id === active) ?? revisions[0])?.engine ?? null;
  return engine === null ? [] : [["  Engine", `${engine}: ${engines[engine].title}`]];
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

function describeRevisions({ terminal }: Session, deployment: Deployment, revisions: Revision[]): string[] {
  if (revisions.length === 0) return ["  No revision yet."];
  const rows = revisions.map((revision) => [
    `  ${revision.number ?? "-"}`,
    shortId(revision.id),
    revision.id === deployment.active_revision_id ? "serving" : "",
    revision.status,
    describeReason(revision),
    describeMaker(revision),
    `${age(revision.created_at)} ago`,
    describeCode(revision),
  ]);
  const lines = columns([["  NO", "REVISION", "", "STATUS", "WHY", "BY", "CREATED", "FROM"], ...rows]).split("\n");
  const painted = lines.map((line, row) => {
    const revision = revisions[row - 1];
    return revision === undefined
      ? terminal.paintOut("dim", line)
      : line.replace(revision.status, terminal.paintOut(colorOf(revision), revision.status));
  });
  const newest = revisions[0];
  const isFailed = newest !== undefined && newest.status !== "DEPLOYED";
  const message = isFailed ? withDeploymentName(newest.status_message, deployment.name) : null;
  // The advice above the revisions has the message already.
  const isSaid =
    deployment.health?.next_action != null && deployment.health.message?.split("\n")[0] === message?.split("\n")[0];
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
  return where === null ? source : `${source} ${harmless(where)}`;
}
