import type { AuditEntry } from "../../contract/administration/audit.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import type { Session } from "../session.ts";
import { tableOf } from "../terminal/choose.ts";
import { parseMoment, parseWhole, shortId } from "../terminal/text.ts";
import { findWorkspace, organizationFilter } from "./tenants.ts";

interface AuditOptions {
  deployment?: string;
  for?: string;
  organization?: string;
  actor?: string;
  action?: string;
  text?: string;
  since?: string;
  until?: string;
  lines: string;
}

/** Lists the entries of the audit log, newest first. */
export async function audit(session: Session, _: string[], options: AuditOptions): Promise<void> {
  const client = await session.client();
  const most = parseWhole(options.lines);
  const query = await queryOf(session, options);
  const entries: AuditEntry[] = [];
  let cursor: string | null = "";
  while (cursor !== null && entries.length < most) {
    const page = { page_size: Math.min(100, most - entries.length), ...(cursor !== "" && { cursor }) };
    const found: { items: AuditEntry[]; next_cursor: string | null } = await client.listAuditLog(
      { ...query, ...page },
      { signal: session.signal },
    );
    entries.push(...found.items);
    cursor = found.next_cursor;
  }
  session.answer({ entries, has_more: cursor !== null }, () => {
    const rows = entries.map((entry) => [
      entry.created_at.slice(0, 19).replace("T", " "),
      entry.actor_name ?? entry.actor,
      entry.action,
      entry.subject_name ?? shortId(entry.subject_id ?? "-"),
      summaryOf(entry),
    ]);
    return tableOf(session, ["WHEN (UTC)", "WHO", "WHAT", "ON", "CHANGED"], rows);
  });
  if (cursor !== null) session.terminal.say(`More entries exist. Show them: --lines ${most * 10}`);
}

async function queryOf(session: Session, options: AuditOptions) {
  const { deployment, actor, action, text, since, until } = options;
  return {
    ...(await organizationFilter(session, options)),
    ...(options.for !== undefined && { workspace_id: (await findWorkspace(session, options.for)).id }),
    ...(deployment !== undefined && { deployment_id: await deploymentId(session, deployment) }),
    ...(actor !== undefined && { actor }),
    ...(action !== undefined && { action }),
    ...(text !== undefined && { text }),
    ...(since !== undefined && { since: parseMoment(since) }),
    ...(until !== undefined && { until: parseMoment(until) }),
  };
}

/** Accepts a full id without a lookup, because the audit log outlives the deployment. */
async function deploymentId(session: Session, wanted: string): Promise<string> {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(wanted)) return wanted;
  return (await findDeployment(session, wanted)).id;
}

/** Formats the changes on one line: `display_name: null → "Bot"; secrets +NEW -OLD ~CHANGED`. */
function summaryOf({ changes, secrets, details }: AuditEntry): string {
  const fields = Object.entries(changes).map(
    ([name, { before, after }]) => `${name}: ${short(before)} → ${short(after)}`,
  );
  const names = [
    ...(secrets?.added ?? []).map((name) => `+${name}`),
    ...(secrets?.removed ?? []).map((name) => `-${name}`),
    ...(secrets?.changed ?? []).map((name) => `~${name}`),
  ];
  if (names.length > 0) fields.push(`secrets ${names.join(" ")}`);
  if (fields.length === 0) fields.push(...Object.entries(details).map(([name, value]) => `${name}: ${short(value)}`));
  return fields.join("; ");
}

function short(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
