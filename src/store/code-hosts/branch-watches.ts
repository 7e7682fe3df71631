import { createHash } from "node:crypto";
import type { FollowedBranch } from "../../contract/integrations/git-settings.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { enqueued } from "../queue/enqueue.ts";

export interface BranchWatch {
  repo_key: string;
  ref: string;
  commit_sha: string | null;
  pushed: string[];
  /** Messages of code hosts about this branch. */
  message_count: number;
  polled_at: Date;
  attempts: number;
}

/** Returns the state of the last poll of the branch; undefined: it was never polled. */
export async function findWatch(db: Db | Trx, deploymentId: string): Promise<BranchWatch | undefined> {
  const { rows } = await db.query<BranchWatch>(sql`
    select repo_key, ref, commit_sha, pushed, told as message_count, looked_at as polled_at, attempts from branch_watches
     where deployment_id = ${deploymentId}`);
  return rows[0];
}

/** Returns the followed branch for display: when it was polled, and with which result. */
export async function findFollowedBranch(db: Db, deploymentId: string): Promise<FollowedBranch | null> {
  const { rows } = await db.query<{
    ref: string;
    commit_sha: string | null;
    polled_at: Date;
    next_poll_at: Date;
    last_error: string | null;
  }>(sql`
    select ref, commit_sha, looked_at as polled_at, look_at as next_poll_at, last_error from branch_watches
     where deployment_id = ${deploymentId}`);
  const [row] = rows;
  if (row === undefined) return null;
  const { ref, commit_sha, last_error: error } = row;
  return {
    ref,
    commit_sha,
    polled_at: row.polled_at.toISOString(),
    next_poll_at: row.next_poll_at.toISOString(),
    error,
  };
}

export interface BranchPoll {
  deploymentId: string;
  tenantId: string;
  repoKey: string;
  ref: string;
  commitSha: string | null;
  /** As it was when the poll started. Messages that arrived since make another poll due at once. */
  messageCount: number;
  /** Commits of messages that this poll has handled. */
  handled: readonly string[];
  nextInMs: number;
  /** null: the poll succeeded. */
  error: string | null;
}

/** Records the result of a poll, and when the next one is due. */
export async function recordBranchPoll(db: Db | Trx, poll: BranchPoll): Promise<void> {
  const next = sql`now() + ${poll.nextInMs} * interval '1 millisecond'`;
  const error = poll.error && sanitizeText(poll.error);
  await db.query(sql`
    insert into branch_watches (deployment_id, tenant_id, repo_key, ref, commit_sha, look_at, attempts, last_error)
    values (${poll.deploymentId}, ${poll.tenantId}, ${poll.repoKey}, ${poll.ref}, ${poll.commitSha}, ${next},
      ${error === null ? 0 : 1}, ${error})
    on conflict (deployment_id) do update
       set repo_key = excluded.repo_key, ref = excluded.ref, commit_sha = excluded.commit_sha, looked_at = now(),
           pushed = array(select sha from unnest(branch_watches.pushed) with ordinality as p (sha, n)
                           where sha <> all(${[...poll.handled]}::text[]) order by n),
           look_at = case when branch_watches.told = ${poll.messageCount} then excluded.look_at else branch_watches.look_at end,
           attempts = case when excluded.last_error is null then 0 else branch_watches.attempts + 1 end,
           last_error = excluded.last_error`);
}

/** Deletes the watch of a deployment that no longer follows a branch. */
export async function deleteWatch(db: Db, deploymentId: string): Promise<void> {
  await db.query(sql`delete from branch_watches where deployment_id = ${deploymentId}`);
}

/** Pushes stored per deployment between two polls; more in a second count as one. */
const pushedMax = 200;

/** A webhook message of a code host, and the workspaces it concerns. */
export interface HostMessage {
  /** Ids of the message; one that was received before is ignored. */
  names: readonly string[];
  /** All keys of its repository. */
  repoKeys: readonly string[];
  events: readonly { branch: string; commitSha: string | null }[];
  /** null: from the GitHub App, which concerns all workspaces; otherwise the integration whose secret signed it. */
  integration: { tenantId: string; id: string } | null;
}

/**
 * Makes polls due for the branches in a message, in one transaction with recording the message.
 * @returns how many deployments are polled; undefined: the message was received before.
 */
export async function receiveHostMessage(db: Db, message: HostMessage): Promise<number | undefined> {
  const digests = message.names.map((name) => createHash("sha256").update(name).digest());
  const pollCount = await db.transaction(async (trx) => {
    const { rows } = await trx.query(sql`
      insert into host_deliveries (digest) select * from unnest(${digests}::bytea[]) on conflict do nothing
      returning 1`);
    if (rows.length < digests.length) return undefined;
    return scheduleBranchPolls(trx, message);
  });
  if (pollCount === undefined || pollCount === 0) return pollCount;
  db.reached("push received");
  db.changes.wake();
  return pollCount;
}

async function scheduleBranchPolls(trx: Trx, { repoKeys, events, integration }: HostMessage): Promise<number> {
  const branches = events.map(({ branch }) => branch);
  const commits = events.map(({ commitSha }) => commitSha);
  const { rows } = await trx.query(sql`
    with named as (
      select branch, array_agg(sha order by n) filter (where sha is not null) as shas
        from unnest(${branches}::text[], ${commits}::text[]) with ordinality as e (branch, sha, n) group by branch
    ), followed as (
      select w.deployment_id, n.shas from branch_watches w join named n on n.branch = w.ref
        join deployments d on d.id = w.deployment_id
       where w.repo_key = any(${[...repoKeys]}::text[])
         and (${integration === null} or (w.tenant_id = ${integration?.tenantId ?? null}::uuid
              and d.source_config ->> 'integration_id' = ${integration?.id ?? null}::text))
       order by w.deployment_id for update of w
    ), notified as (
      update branch_watches w
         set look_at = now(), told = w.told + 1,
             pushed = (w.pushed || array(select sha from unnest(f.shas) with ordinality as s (sha, n)
                                          where sha <> all(w.pushed) group by sha order by min(n)))[1:${pushedMax}]
        from followed f where w.deployment_id = f.deployment_id
      returning w.deployment_id
    ), ${enqueued("notified")}
    select deployment_id from notified`);
  return rows.length;
}
