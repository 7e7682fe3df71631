import type { Artifact } from "../../contract/listeners/assignment.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { moveRevision } from "../revisions/revisions.ts";
import { saveArtifact } from "./artifacts.ts";

/** What a build that succeeded left for its revision. */
export interface BuiltArtifact {
  artifact: Artifact;
  artifact_key: string;
}

/** Returns the artifact of a build that succeeded; undefined when the build has not, or its revision is gone. */
export async function findBuiltArtifact(db: Db, revisionId: string): Promise<BuiltArtifact | undefined> {
  const { rows } = await db.query<BuiltArtifact>(sql`
    select b.result -> 'artifact' as artifact, r.artifact_key from builds b join revisions r on r.id = b.revision_id
     where b.revision_id = ${revisionId} and b.status = 'succeeded'`);
  return rows[0];
}

/**
 * Saves a built artifact and moves its revision BUILDING -> AWAITING_DEPLOY in one transaction. A revision that has
 * moved already stays where it is.
 */
export async function acceptArtifact(
  db: Db,
  revision: { id: string; deploymentId: string; tenantId: string },
  { artifact, artifact_key: key }: BuiltArtifact,
  deadlineAt: Date | null,
): Promise<void> {
  await db.transaction(async (trx) => {
    const artifactId = await saveArtifact(trx, revision.tenantId, key, artifact);
    if (artifact.kind === "image") await recordBuilder(trx, artifactId, revision.id);
    await moveRevision(trx, revision, {
      from: "BUILDING",
      to: "AWAITING_DEPLOY",
      because: "the artifact is ready",
      deadlineAt,
      set: { artifact_id: artifactId },
      byPass: true,
    });
  });
  db.reached("artifact accepted");
  db.changes.wakeWatchers();
}

/** Records which listener has pushed an image, so that it removes the image when no revision needs it. */
async function recordBuilder(trx: Trx, artifactId: string, revisionId: string): Promise<void> {
  await trx.query(sql`
    update artifacts a set listener_id = (r.source_config ->> 'listener_id')::uuid from revisions r
     where a.id = ${artifactId} and r.id = ${revisionId} and r.source_config ->> 'listener_id' is not null`);
}
