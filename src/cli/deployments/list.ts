import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { HealthWord } from "../../contract/deployments/health.ts";
import type { Output } from "../context.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { maskSecrets } from "../terminal/mask.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, columns, parseWhole, shortId } from "../terminal/text.ts";
import { healthOfText, healthText, healthTexts } from "./health.ts";

export interface ListOptions {
  status?: string;
  health?: string;
  search?: string;
  tag?: string[];
  limit: string;
}

/** Parses a status. @throws CliFailure for an unknown one, for which the server would return an empty list. */
async function parseStatus(text: string): Promise<string> {
  const { deploymentStatuses } = await import("../../contract/deployments/deployment-statuses.ts");
  const status = text.toUpperCase();
  if (deploymentStatuses.some((known) => known === status)) return status;
  throw usageFailure(`"${text}" is not a deployment status.`, `Statuses: ${deploymentStatuses.join(", ")}`);
}

/** Parses health words, separated by commas. @throws CliFailure for an unknown one. */
function parseHealth(text: string): HealthWord[] {
  return text.split(",").map((part) => {
    const word = healthOfText(part.trim());
    if (word !== undefined) return word;
    throw usageFailure(`"${part.trim()}" is not a health.`, `Health: ${healthTexts.join(", ")}`);
  });
}

/** Lists the deployments of the workspace, newest first. */
export async function list(session: Session, _: string[], options: ListOptions): Promise<void> {
  const client = await session.client();
  const limit = parseWhole(options.limit);
  const query = {
    ...(options.status === undefined ? {} : { status: await parseStatus(options.status) }),
    ...(options.health === undefined ? {} : { health: parseHealth(options.health) }),
    ...(options.search === undefined ? {} : { text_contains: options.search }),
    ...(options.tag === undefined ? {} : { tag_value_ids: await tagIds(session, options.tag) }),
  };
  const deployments: Deployment[] = [];
  let hasMore = false;
  for await (const deployment of client.all("listDeployments", query, { signal: session.signal })) {
    hasMore = deployments.length === limit;
    if (hasMore) break;
    deployments.push(deployment);
  }
  session.answer({ deployments: deployments.map(maskSecrets), has_more: hasMore }, () => render(session, deployments));
  if (deployments.length === 0 && !hasMore) {
    const isFiltered = Object.keys(query).length > 0;
    session.terminal.say(
      isFiltered ? "No deployments match these filters." : "No deployments. Create one: pierhead deploy DIR",
    );
  }
  if (hasMore) session.terminal.say(`More deployments exist. Show them: --limit ${Math.max(100, limit * 10)}`);
}

/** How a deployment was given, in a word. */
const sources: Readonly<Record<string, string>> = {
  github: "git",
  internal_source: "directory",
  internal_template: "template",
  internal_docker: "image",
  external_docker: "image",
};

function render({ terminal, context }: Session, deployments: Deployment[]): string | undefined {
  if (deployments.length === 0) return undefined;
  const rows = deployments.map((deployment) => [
    harmless(deployment.name),
    shortId(deployment.id),
    healthText(deployment).text,
    activeRevision(deployment),
    age(deployment.updated_at),
    sources[deployment.source] ?? deployment.source,
    harmless(deployment.url ?? "-"),
  ]);
  const table = [["NAME", "ID", "HEALTH", "ACTIVE", "CHANGED", "SOURCE", "URL"], ...rows];
  const [head, ...lines] = fittingColumns(table, context.stdout).split("\n");
  const painted = lines.map((line, row) => {
    const { text, style } = healthText(deployments[row] as Deployment);
    return line.replace(new RegExp(`(?<=^\\S+ +\\S+ +)${text}`), (found) => terminal.paintOut(style, found));
  });
  return [terminal.paintOut("dim", head ?? ""), ...painted].join("\n");
}

/** Leaves out the address and then the source where lines would wrap. `pierhead open NAME` prints the address. */
function fittingColumns(table: string[][], { isTTY, columns: width }: Output): string {
  const all = columns(table);
  if (isTTY !== true || width === undefined) return all;
  const fits = (text: string) => text.split("\n").every((line) => line.length <= width);
  const without = (last: number) => columns(table.map((row) => row.slice(0, row.length - last)));
  if (fits(all)) return all;
  return fits(without(1)) ? without(1) : without(2);
}

/** Formats the active revision: `b8a1c2d3`, or `b8a1c2d3 < 77aa00bb` if a newer revision does not serve yet. */
function activeRevision({ active_revision_id: active, latest_revision_id: latest }: Deployment): string {
  if (latest === null) return "-";
  if (active === latest) return shortId(latest);
  return `${active === null ? "-" : shortId(active)} < ${shortId(latest)}`;
}

/** Imports the module only for lists by tag, because it takes 2 ms. */
async function tagIds(session: Session, tags: string[]): Promise<string> {
  const { tagValueIds } = await import("../administration/tags.ts");
  return (await tagValueIds(session, tags)).join(",");
}
