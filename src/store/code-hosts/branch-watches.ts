import { createHash } from "node:crypto";
import { sql } from "kysely";
import type { FollowedBranch } from "../../contract/integrations/git-settings.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import type { Db, Trx } from "../engine/database.ts";
import { enqueued } from "../queue/enqueue.ts";

export interface BranchWatch {
  repo_key: string;
  ref: string;
  commit_sha: string | null;
  pushed: string[];
  told: number;
  looked_at: Date;
  attempts: number;
}

/** What was seen of the branch; undefined: it was never looked at. */
export async function findWatch(db: Db | Trx, deploymentId: string): Promise<BranchWatch | undefined> {
  const { rows } = await sql<BranchWatch>`
    select repo_key, ref, commit_sha, pushed, told, looked_at, attempts from branch_watches
     where deployment_id = ${deploymentId}`.execute(db.kysely);
  return rows[0];
}

/** The same for people: when it was looked at, and how that went. */
export async function findFollowedBranch(db: Db, deploymentId: string): Promise<FollowedBranch | null> {
  const { rows } = await sql<{
    ref: string;
    commit_sha: string | null;
    looked_at: Date;
    look_at: Date;
    last_error: string | null;
  }>`
    select ref, commit_sha, looked_at, look_at, last_error from branch_watches where deployment_id = ${deploymentId}`.execute(
    db.kysely,
  );
  const [row] = rows;
  if (row === undefined) return null;
  const { ref, commit_sha, last_error: error } = row;
  return { ref, commit_sha, looked_at: row.looked_at.toISOString(), next_look_at: row.look_at.toISOString(), error };
}

export interface BranchPoll {
  deploymentId: string;
  tenantId: string;
  repoKey: string;
  ref: string;
  commitSha: string | null;
  /** What the look was begun with: messages that came meanwhile make another one due at once. */
  told: number;
  /** Commits of messages that the look took into account. */
  handled: readonly string[];
  nextInMs: number;
  /** null: it went well. */
  error: string | null;
}

/** Writes down what a look found, and when the next one is due. */
export async function recordBranchPoll(db: Db | Trx, look: BranchPoll): Promise<void> {
  const next = sql`now() + ${look.nextInMs} * interval '1 millisecond'`;
  const error = look.error && sanitizeText(look.error);
  await sql`
    insert into branch_watches (deployment_id, tenant_id, repo_key, ref, commit_sha, look_at, attempts, last_error)
    values (${look.deploymentId}, ${look.tenantId}, ${look.repoKey}, ${look.ref}, ${look.commitSha}, ${next},
      ${error === null ? 0 : 1}, ${error})
    on conflict (deployment_id) do update
       set repo_key = excluded.repo_key, ref = excluded.ref, commit_sha = excluded.commit_sha, looked_at = now(),
           pushed = array(select sha from unnest(branch_watches.pushed) with ordinality as p (sha, n)
                           where sha <> all(${[...look.handled]}::text[]) order by n),
           look_at = case when branch_watches.told = ${look.told} then excluded.look_at else branch_watches.look_at end,
           attempts = case when excluded.last_error is null then 0 else branch_watches.attempts + 1 end,
           last_error = excluded.last_error`.execute(db.kysely);
}

/** The deployment follows no branch any more. */
export async function deleteWatch(db: Db, deploymentId: string): Promise<void> {
  await sql`delete from branch_watches where deployment_id = ${deploymentId}`.execute(db.kysely);
}

/** Messages remembered per deployment between two looks: more pushes than that in a second are one all the same. */
const pushedMax = 200;

/** A message of a code host, and for whom it is. */
export interface HostMessage {
  /** Names of the message; one that was heard before counts no more. */
  names: readonly string[];
  events: readonly { repoKeys: readonly string[]; branch: string; commitSha: string | null }[];
  /** null: the host of the App, which knows all; otherwise who has stored the secret that signed it. */
  integration: { tenantId: string; id: string } | null;
}

/**
 * Makes looks due at what a message is about; in one transaction with remembering it.
 * @returns how many deployments are looked at; undefined: the message was heard before.
 */
export async function receiveHostMessage(
  db: Db,
  { names, events, integration }: HostMessage,
): Promise<number | undefined> {
  const digests = names.map((name) => createHash("sha256").update(name).digest());
  const heard = await db.transaction(async (trx) => {
    const { rows } = await sql`
      insert into host_deliveries (digest) select * from unnest(${digests}::bytea[]) on conflict do nothing
      returning 1`.execute(trx.kysely);
    if (rows.length < digests.length) return undefined;
    let looks = 0;
    for (const event of events) looks += await scheduleBranchPolls(trx, event, integration);
    return looks;
  });
  if (heard === undefined || heard === 0) return heard;
  db.reached("push received");
  db.changes.wake();
  return heard;
}

async function scheduleBranchPolls(
  trx: Trx,
  { repoKeys, branch, commitSha }: HostMessage["events"][number],
  integration: HostMessage["integration"],
): Promise<number> {
  const { rows } = await sql`
    with told as (
      update branch_watches w
         set look_at = now(), told = w.told + 1,
             pushed = case when ${commitSha}::text is null or ${commitSha} = any(w.pushed) or cardinality(w.pushed) >= ${pushedMax}
                           then w.pushed else array_append(w.pushed, ${commitSha}) end
        from deployments d
       where w.repo_key = any(${[...repoKeys]}::text[]) and w.ref = ${branch} and d.id = w.deployment_id
         and (${integration === null} or (w.tenant_id = ${integration?.tenantId ?? null}::uuid
              and d.source_config ->> 'integration_id' = ${integration?.id ?? null}::text))
      returning w.deployment_id
    ), ${enqueued("told")}
    select deployment_id from told`.execute(trx.kysely);
  return rows.length;
}
