import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { DeploymentReplicas } from "../../contract/deployments/replica.ts";
import { effectiveSizes } from "../../domain/sizes.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, columns, count, shortId } from "../terminal/text.ts";
import { findDeployment } from "./find-deployment.ts";

/** Lists the replicas of a deployment, and why one ended last. */
export async function ps(session: Session, [name = ""]: string[]): Promise<void> {
  const { terminal, signal } = session;
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const found = await client.listReplicas({ deployment_id: deployment.id }, { signal });
  session.answer(found, () => render(deployment, found));
  if (found.replicas.length > 0) return;
  const restarting =
    found.exits_in_a_row > 0 ? " The listener starts one again after a pause, which grows with each exit." : "";
  const because = found.asleep ? " It sleeps until the next request." : restarting;
  terminal.say(`${deployment.name} has no replica.${because}`);
}

function render(
  deployment: Deployment,
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
    rows.length === 0
      ? []
      : [columns([["REPLICA", "REVISION", "STATE", "RESTARTS", "AGE"], ...rows]), scaleText(deployment)];
  const streak = exits > 1 ? ` (${count(exits, "exit")} in a row)` : "";
  const label = at == null ? "Cause" : `Last exit, ${age(at)} ago`;
  const cause =
    exit === null
      ? []
      : ["", `${label}: ${harmless(exit.message)}${streak}`, ...exit.last_lines.map((line) => `  ${harmless(line)}`)];
  const lines = [...table, ...cause];
  return lines.length === 0 ? undefined : lines.join("\n");
}

/** Says how many replicas may run. */
function scaleText({ source, source_config: config }: Deployment): string {
  const hasSpec = source === "external_docker" || config.listener_id !== null;
  const { minReplicas: min, maxReplicas: max } = effectiveSizes(
    hasSpec ? null : config.deployment_type,
    config.resource_spec,
  );
  return min === max ? `Scale: ${count(min, "replica")}` : `Scale: ${min} to ${max} replicas, by load`;
}
