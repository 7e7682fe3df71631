import type { Client } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { DeploymentReplicas } from "../../contract/deployments/replica.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import type { Session } from "../session.ts";
import { fittedTo } from "../terminal/choose.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, columns, count, shortId } from "../terminal/text.ts";
import { findDeployment } from "./find-deployment.ts";
import { scaleOf } from "./scale-of.ts";

/** Lists the replicas of a deployment, and why one ended last. */
export async function ps(session: Session, [name = ""]: string[]): Promise<void> {
  const { terminal, signal } = session;
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const [found, serving] = await Promise.all([
    client.listReplicas({ deployment_id: deployment.id }, { signal }),
    servingRevision(client, deployment, signal),
  ]);
  session.answer(found, () => render(session, { deployment, serving }, found));
  if (found.replicas.length > 0) return;
  const restarting =
    found.exits_in_a_row > 0 ? " The listener starts one again after a pause, which grows with each exit." : "";
  const because = found.asleep ? " It sleeps until the next request." : restarting;
  terminal.say(`${deployment.name} has no replica.${because}`);
}

const head = ["REPLICA", "REVISION", "STATE", "RESTARTS", "AGE"];

function render(
  { context }: Session,
  { deployment, serving }: { deployment: Deployment; serving: Revision | null },
  { replicas, last_exit: exit, last_exit_at: at, exits_in_a_row: exits }: DeploymentReplicas,
): string | undefined {
  const rows = replicas.map((replica) => [
    harmless(replica.id),
    replica.revision_number === null ? shortId(replica.revision_id) : String(replica.revision_number),
    replica.phase,
    String(replica.restarts),
    replica.started_at === null ? "-" : age(replica.started_at),
  ]);
  const table =
    rows.length === 0 ? [] : [columns(fittedTo(context.stdout, [head, ...rows])), scaleText(deployment, serving)];
  const streak = exits > 1 ? ` (${count(exits, "exit")} in a row)` : "";
  const label = at == null ? "Cause" : `Last exit, ${age(at)} ago`;
  const cause =
    exit === null
      ? []
      : ["", `${label}: ${harmless(exit.message)}${streak}`, ...exit.last_lines.map((line) => `  ${harmless(line)}`)];
  const lines = [...table, ...cause];
  return lines.length === 0 ? undefined : lines.join("\n");
}

/** Returns the revision that serves, whose engine may allow one replica only; null: none serves. */
async function servingRevision(
  client: Client,
  { id, active_revision_id: active }: Deployment,
  signal: AbortSignal,
): Promise<Revision | null> {
  return active === null ? null : client.getRevision({ deployment_id: id, revision_id: active }, { signal });
}

/** Says how many replicas may run. */
function scaleText(deployment: Deployment, serving: Revision | null): string {
  const { minReplicas: min, maxReplicas: max } = scaleOf(deployment);
  const isOutsideClusters = deployment.source_config.listener_id === null;
  if (max > 1 && isOutsideClusters && serving?.rollout === "handover") {
    const { engine = null } = serving;
    const because =
      engine === null || engine === "own" ? "its server keeps state" : `the engine ${engine} keeps the state`;
    return `Scale: ${min === 0 ? "0 or 1 replica" : "1 replica"}, because ${because} in one process`;
  }
  return min === max ? `Scale: ${count(min, "replica")}` : `Scale: ${min} to ${max} replicas, by load`;
}
