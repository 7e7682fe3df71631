import type { HealthWord } from "../../contract/deployments/health.ts";
import type { Health } from "../../domain/deployment-health.ts";
import { batched } from "../engine/batched.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

interface HealthRecord {
  id: string;
  /** The word that the caller saw. */
  seen: HealthWord;
  health: Health;
}

/**
 * Records the health of a deployment, only if it still has the word that the caller saw. A changed word is also an
 * event.
 * @returns false when another worker was faster.
 */
export async function recordHealth(db: Db, record: HealthRecord): Promise<boolean> {
  const isRecorded = await joinedRecords(db, record);
  if (isRecorded) db.changes.wakeWatchers();
  return isRecorded;
}

const joinedRecords = batched(async (db, records: HealthRecord[]): Promise<boolean[]> => {
  const wanted = records.map(({ id, seen, health }, n) => ({ n, id, seen, ...health }));
  const { rows } = await db.query<{ n: number }>(sql`
    with wanted as (
      select * from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb)
        as w (n integer, id uuid, seen text, word text, reason text, message text, failure jsonb)
    ), recorded as (
      update deployments d set health = w.word, health_reason = w.reason, health_message = w.message,
             health_failure = w.failure,
             health_since = case when d.health = w.word then d.health_since else now() end
        from wanted w
       where d.id = any(${records.map(({ id }) => id)}::uuid[]) and d.id = w.id and d.health = w.seen
      returning w.n, d.id as deployment_id, d.tenant_id, d.active_revision_id, w.seen, w.word, w.reason, w.message
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, active_revision_id, 'deployment.health',
             jsonb_build_object('from', seen, 'to', word, 'because', reason, 'message', message)
        from recorded where seen <> word order by deployment_id
    )
    select n from recorded`);
  const recorded = new Set(rows.map(({ n }) => n));
  return records.map((_, n) => recorded.has(n));
});
