import { sanitizeText } from "../../domain/sanitize-text.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { enqueued } from "../queue/enqueue.ts";
import { countedBuild } from "../tenants/quotas.ts";

/** The result that a build left in its row; the failure text becomes `status_message`. */
export interface StoredBuildResult {
  failure: string | null;
  /** Why it failed, as a word of `src/builds/failure.ts`. */
  reason?: string;
  /** Manifest of the artifact, if the build succeeded. */
  artifact: unknown;
  /** What people wrote about the commit that was built; absent or null: unknown. */
  commit?: { message: string; author: string | null } | null;
}

export interface OrphanedProcess {
  pid: number | null;
  pidStarted: string | null;
}

/**
 * Claims the build of a revision and moves the revision to BUILDING in one statement. A running build is taken over only
 * when its server missed its heartbeat. A build that has finished meanwhile is not, because its result would be lost.
 * @returns the process that an earlier owner may have left; undefined when another server has the build.
 */
export async function claimBuild(
  db: Db,
  revision: { id: string; deploymentId: string },
  claim: { owner: string; leaseMs: number; deadlineAt: Date },
): Promise<OrphanedProcess | undefined> {
  const { rows } = await db.query<OrphanedProcess>(sql`
    with moved as (
      update revisions set status = 'BUILDING', status_since = now(), deadline_at = ${claim.deadlineAt}, updated_at = now()
       where id = ${revision.id} and status = 'AWAITING_BUILD' returning id, deployment_id, tenant_id
    ), wanted as (
      select id from moved
      union select id from revisions where id = ${revision.id} and status = 'BUILDING'
    ), before as (
      select revision_id, pid, pid_started, status, started_at, lease_until from builds
       where revision_id = ${revision.id} for update
    ), claimed as (
      insert into builds (revision_id, deployment_id, status, owner, lease_until)
      select id, ${revision.deploymentId}, 'running', ${claim.owner}, now() + ${claim.leaseMs} * interval '1 millisecond' from wanted
       where (select count(*) from before) >= 0 -- read first: a row that this statement changes would not be seen
      on conflict (revision_id) do update
         set owner = excluded.owner, lease_until = excluded.lease_until, status = 'running', pid = null, pid_started = null,
             result = null, started_at = now(), finished_at = null, attempts = builds.attempts + 1
       where builds.status = 'cancelled' or (builds.status = 'running' and builds.lease_until < now())
      returning revision_id
    ), again as ( -- the build starts from the beginning, so its time limit does too
      update revisions set deadline_at = ${claim.deadlineAt} from claimed c where id = c.revision_id and status = 'BUILDING'
    ), abandoned as (
      select r.tenant_id, b.started_at, least(b.lease_until, now()) as ended_at
        from claimed c join before b on b.revision_id = c.revision_id join revisions r on r.id = c.revision_id
       where b.status = 'running'
    ), usage as (${countedBuild("abandoned")}
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, id, 'revision.status',
             '{"from":"AWAITING_BUILD","to":"BUILDING","because":"a build slot is free"}'::jsonb from moved
    ), ${enqueued("moved")}
    select b.pid, b.pid_started as "pidStarted" from claimed c left join before b on b.revision_id = c.revision_id`);
  if (rows.length === 0) return undefined;
  db.reached("build claimed");
  db.changes.wakeWatchers();
  return rows[0];
}

/** Records the process of a build, so that a later server can end it if this one dies. */
export async function recordBuildProcess(
  db: Db,
  revisionId: string,
  worker: { owner: string; pid: number; pidStarted: string },
): Promise<void> {
  await db.query(sql`update builds set pid = ${worker.pid}, pid_started = ${worker.pidStarted}
             where revision_id = ${revisionId} and owner = ${worker.owner}`);
  db.reached("build process recorded");
}

/**
 * Renews the leases of this owner's builds, also of cancelled ones: until they have ended, no other server should take over.
 * @returns the builds that this owner must stop: another server took them over, or their revision is no longer being built.
 */
export async function renewBuilds(db: Db, owner: string, revisionIds: string[], leaseMs: number): Promise<string[]> {
  const { rows } = await db.query<{ revision_id: string; is_wanted: boolean }>(sql`
    update builds b set lease_until = now() + ${leaseMs} * interval '1 millisecond' from revisions r
     where b.revision_id = any(${revisionIds}::uuid[]) and b.owner = ${owner} and b.status = 'running'
       and r.id = b.revision_id
    returning b.revision_id, r.status = 'BUILDING' as is_wanted`);
  const wanted = new Set(rows.flatMap((row) => (row.is_wanted ? [row.revision_id] : [])));
  return revisionIds.filter((id) => !wanted.has(id));
}

/** Ends a build. Only its owner can, and only once. */
export async function finishBuild(
  db: Db,
  revisionId: string,
  end: { owner: string; status: "succeeded" | "failed" | "cancelled"; result: StoredBuildResult | null },
): Promise<boolean> {
  const { result } = end;
  // A failure quotes the last output of a command, which may be cut inside a character.
  const stored = result && {
    artifact: result.artifact,
    failure: result.failure && sanitizeText(result.failure),
    reason: result.reason,
  };
  const commit = result?.commit ?? null;
  const message = commit && sanitizeText(commit.message);
  const { rows } = await db.query(sql`
    with finished as (
      update builds set status = ${end.status}, result = ${stored && JSON.stringify(stored)}::jsonb,
             finished_at = now(), pid = null, pid_started = null
       where revision_id = ${revisionId} and owner = ${end.owner} and status = 'running'
      returning revision_id, deployment_id, started_at
    ), noted as (
      update revisions r set commit_message = ${message}, commit_author = ${commit?.author && sanitizeText(commit.author)}
        from finished f where r.id = f.revision_id and ${message}::text is not null
    ), known as (
      select f.deployment_id, r.tenant_id, f.started_at, now() as ended_at
        from finished f join revisions r on r.id = f.revision_id
    ), usage as (${countedBuild("known")}
    ), ${enqueued("known")}
    select deployment_id from known`);
  if (rows.length === 0) return false;
  db.reached(end.status === "cancelled" ? "build cancelled" : "build finished");
  db.changes.wake();
  return true;
}

/** Takes over an abandoned build in order to end it; the time without an owner does not count. @returns its left process, or undefined when its owner lives. */
export async function takeAbandonedBuild(
  db: Db,
  revisionId: string,
  claim: { owner: string; leaseMs: number },
): Promise<OrphanedProcess | undefined> {
  const { rows } = await db.query<OrphanedProcess>(sql`
    update builds set owner = ${claim.owner}, lease_until = now() + ${claim.leaseMs} * interval '1 millisecond',
           started_at = started_at + (now() - lease_until)
     where revision_id = ${revisionId} and status = 'running' and lease_until < now()
    returning pid, pid_started as "pidStarted"`);
  return rows[0];
}

/** Releases the builds of a server that stops cleanly, so that others can claim them at once. */
export async function releaseBuilds(db: Db, owner: string): Promise<void> {
  await db.query(sql`
    with released as (
      update builds set lease_until = now() - interval '1 second', pid = null, pid_started = null, attempts = attempts - 1
       where owner = ${owner} and status = 'running' returning deployment_id
    ), ${enqueued("released")}
    select 1`);
}

/** Returns the builds with a live owner: their work directories must stay. */
export async function findLiveBuilds(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ revision_id: string }>(sql`
    select revision_id from builds where status = 'running' and lease_until > now()`);
  return rows.map((row) => row.revision_id);
}
