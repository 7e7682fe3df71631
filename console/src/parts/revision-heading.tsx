import { GitCommitHorizontal } from "lucide-react";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { Avatar } from "./avatar.tsx";
import { authorOf, makerText, numberText, reasonText, titleOf } from "./revision-words.tsx";
import { durationText, shortId } from "./text.ts";
import { Ago } from "./time.tsx";

/** The number and the title of a revision, with what is known of its deploy. `tookMs`: how long it took; undefined: not shown. */
export function RevisionHeading({ revision, tookMs }: { revision: Revision; tookMs?: number | undefined }) {
  return (
    <div className="revision-what">
      <span className="revision-number">{numberText(revision)}</span>
      <div>
        <p className="revision-title" title={sourceOf(revision)}>
          {titleOf(revision)}
        </p>
        <RevisionMeta revision={revision} tookMs={tookMs} />
      </div>
    </div>
  );
}

/** Who made a revision, why, from which commit, when, and how long its deploy took. */
function RevisionMeta({ revision, tookMs }: { revision: Revision; tookMs?: number | undefined }) {
  const { repo_commit_sha: sha } = revision.source_revision_config;
  const maker = makerText(revision);
  const author = authorOf(revision);
  const isByOther = maker !== null && author !== null && maker !== author.name;
  return (
    <p className="meta">
      {author !== null && (
        <span className="by">
          <Avatar {...author} /> {author.name}
        </span>
      )}
      <span>
        {reasonText(revision)}
        {isByOther && ` by ${maker}`}
      </span>
      {sha !== null && (
        <span className="mono">
          <GitCommitHorizontal size={13} className="in-text" /> {shortId(sha)}
        </span>
      )}
      <Ago at={revision.created_at} />
      {tookMs !== undefined && <span>took {durationText(tookMs)}</span>}
    </p>
  );
}

/** Returns what identifies the source: commit, ref, image and config file. */
function sourceOf({ source_revision_config: config }: Revision): string {
  const { repo_commit_sha: sha, repo_ref: ref, image_uri: image, langgraph_config_path: configPath } = config;
  return [sha, ref, image, configPath].filter((word) => word !== null).join(" · ");
}
