import type { Deployment } from "../../contract/deployments/deployment.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { maskSecrets } from "../terminal/mask.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, columns, parseWhole, shortId } from "../terminal/text.ts";

export interface ListOptions {
  status?: string;
  search?: string;
  tag?: string[];
  limit: string;
}

/** @throws CliFailure for a word that no deployment's status can be; the server would answer with an empty list. */
async function parseStatus(text: string): Promise<string> {
  const { deploymentStatuses } = await import("../../contract/deployments/deployment-statuses.ts");
  const status = text.toUpperCase();
  if (deploymentStatuses.some((known) => known === status)) return status;
  throw usageFailure(`"${text}" is no status of a deployment.`, `Statuses: ${deploymentStatuses.join(", ")}`);
}

/** The deployments of the workspace, newest first. */
export async function list(session: Session, _: string[], options: ListOptions): Promise<void> {
  const client = await session.client();
  const most = parseWhole(options.limit);
  const query = {
    ...(options.status === undefined ? {} : { status: await parseStatus(options.status) }),
    ...(options.search === undefined ? {} : { name_contains: options.search }),
    ...(options.tag === undefined ? {} : { tag_value_ids: await tagIds(session, options.tag) }),
  };
  const deployments: Deployment[] = [];
  let hasMore = false;
  for await (const deployment of client.all("listDeployments", query, { signal: session.signal })) {
    hasMore = deployments.length === most;
    if (hasMore) break;
    deployments.push(deployment);
  }
  session.answer({ deployments: deployments.map(maskSecrets), has_more: hasMore }, () => render(session, deployments));
  if (deployments.length === 0 && !hasMore) {
    const isFiltered = Object.keys(query).length > 0;
    session.terminal.say(isFiltered ? "No such deployments." : "No deployments. Make one: pierhead deploy DIR");
  }
  if (hasMore) session.terminal.say(`There are more: --limit ${Math.max(100, most * 10)}`);
}

function render({ terminal }: Session, deployments: Deployment[]): string | undefined {
  if (deployments.length === 0) return undefined;
  const rows = deployments.map((deployment) => [
    harmless(deployment.name),
    shortId(deployment.id),
    deployment.status,
    serving(deployment),
    deployment.source,
    age(deployment.updated_at),
    harmless(deployment.url ?? "-"),
  ]);
  const [head, ...lines] = columns([["NAME", "ID", "STATUS", "SERVING", "SOURCE", "CHANGED", "URL"], ...rows]).split(
    "\n",
  );
  return [terminal.paintOut("dim", head ?? ""), ...lines].join("\n");
}

/** `b8a1c2d3`, or `b8a1c2d3 < 77aa00bb` while a newer revision is not the one that serves. */
function serving({ active_revision_id: active, latest_revision_id: latest }: Deployment): string {
  if (latest === null) return "-";
  if (active === latest) return shortId(latest);
  return `${active === null ? "-" : shortId(active)} < ${shortId(latest)}`;
}

/** Loaded for a list by tags alone: it takes 2 ms. */
async function tagIds(session: Session, tags: string[]): Promise<string> {
  const { tagValueIds } = await import("../administration/tags.ts");
  return (await tagValueIds(session, tags)).join(",");
}
