import { shortenText } from "../../base/shorten-text.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { isUnsettled } from "../revisions/revisions.ts";

const prefix = "Retried since ";

/** Maximum characters of an error in a message. The outcomes of the passes have the full text. */
const errorMax = 500;

interface Row {
  id: string;
  message: string | null;
  /** Newest first. Null: no pass has ended. */
  outcomes: { kind: string; at: string }[] | null;
}

/**
 * Sets the message of the revisions in progress of a deployment whose passes fail: what failed last, and since when. Until
 * a pass succeeds, nothing else says why they do not go on.
 */
export async function describeRetries(db: Db, deploymentId: string, error: string): Promise<void> {
  const { rows } = await db.query<Row>(sql`
    select r.id, r.status_message as message, q.outcomes
      from revisions r join reconcile_queue q on q.deployment_id = r.deployment_id
     where r.deployment_id = ${deploymentId} and ${isUnsettled("r")} and r.status <> 'QUEUED'`);
  let isChanged = false;
  for (const { id, message, outcomes } of rows) {
    const text = `${prefix}${sinceOf(message, outcomes ?? [])}: ${shortenText(sanitizeText(error), errorMax)}`;
    if (text === message) continue;
    isChanged = true;
    await db.query(sql`
      update revisions r set status_message = ${text}, updated_at = now() where id = ${id} and ${isUnsettled("r")}`);
  }
  if (isChanged) db.changes.wakeWatchers();
}

export const isRetryMessage = (message: string | null): boolean => message?.startsWith(prefix) === true;

/** Clears these messages, after a pass that succeeded. */
export async function clearRetries(db: Db, deploymentId: string): Promise<void> {
  const { rows } = await db.query(sql`
    update revisions r set status_message = null, updated_at = now()
     where deployment_id = ${deploymentId} and ${isUnsettled("r")} and starts_with(status_message, ${prefix}) returning id`);
  if (rows.length > 0) db.changes.wakeWatchers();
}

/** Returns the time of the first failure in a row. The message has it when there were more failures than stored outcomes. */
function sinceOf(message: string | null, outcomes: NonNullable<Row["outcomes"]>): string {
  const [, known] = /^Retried since ([\d-]+ [\d:]+ UTC): /.exec(message ?? "") ?? [];
  if (known !== undefined) return known;
  const others = outcomes.findIndex(({ kind }) => kind !== "failed");
  const first = (others === -1 ? outcomes : outcomes.slice(0, others)).at(-1);
  const iso = (first === undefined ? new Date() : new Date(first.at)).toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;
}
