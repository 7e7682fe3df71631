import type { Revision } from "../contract/revisions/revision.ts";

/** The line in the build log of a revision that needed no build. */
export const reusedArtifactLine = "This source was built before: reusing its artifact.";

/** The number of revisions among which the builder of an artifact is looked up, the newest first. */
export const builderLookupMax = 100;

/**
 * Returns the first revision of a deployment that has the artifact of another one; null: it is not among them. It built the
 * artifact, unless another deployment had built it before.
 */
export function builderOf<R extends Pick<Revision, "id" | "artifact_digest">>(
  newestFirst: readonly R[],
  revisionId: string | undefined,
): R | null {
  const digest = newestFirst.find(({ id }) => id === revisionId)?.artifact_digest;
  const builder = digest == null ? undefined : newestFirst.findLast(({ artifact_digest: one }) => one === digest);
  return builder === undefined || builder.id === revisionId ? null : builder;
}
