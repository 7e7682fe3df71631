import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/**
 * Returns the commit of the newest revision of a ref, if that revision is younger than `youngerThanMs` and was made while the
 * deployment followed the ref; undefined otherwise.
 */
export async function findCommitOf(
  db: Db,
  asked: { deploymentId: string; ref: string; youngerThanMs: number },
): Promise<string | undefined> {
  const { rows } = await db.query<{ commit: string }>(sql`
    select r.source_revision_config ->> 'repo_commit_sha' as commit from revisions r
     where r.deployment_id = ${asked.deploymentId} and r.source = 'github' and r.redeploy_of is null
       and r.source_revision_config ->> 'repo_ref' = ${asked.ref}
       and (r.source_config ->> 'build_on_push')::boolean
       and r.source_revision_config ->> 'repo_commit_sha' is not null
       and r.created_at > now() - ${asked.youngerThanMs} * interval '1 millisecond'
     order by r.seq desc limit 1`);
  return rows[0]?.commit;
}

/** Returns whether any revision of this commit was created since then. Redeploys of an older artifact do not count. */
export async function hasCommitSince(
  db: Db,
  asked: { deploymentId: string; commitSha: string; since: Date },
): Promise<boolean> {
  const { rows } = await db.query(sql`
    select 1 from revisions r
     where r.deployment_id = ${asked.deploymentId} and r.source = 'github' and r.redeploy_of is null
       and r.source_revision_config ->> 'repo_commit_sha' = ${asked.commitSha}
       and r.created_at >= ${asked.since} limit 1`);
  return rows.length > 0;
}
