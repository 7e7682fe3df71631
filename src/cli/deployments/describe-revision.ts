import type { Revision, RevisionReason } from "../../contract/revisions/revision.ts";
import { harmless } from "../terminal/terminal.ts";
import { shortId } from "../terminal/text.ts";

/** Characters of a commit message in a list. */
const messageMax = 50;

/** Returns the value that distinguishes a revision from others: ref, commit, upload or image. */
export function describeRevision({ source_revision_config: config }: Pick<Revision, "source_revision_config">): string {
  const { repo_ref: ref, repo_commit_sha: commit, source_tarball_path: upload, image_uri: image } = config;
  if (ref !== null && ref === commit) return shortId(commit);
  if (ref !== null) return harmless(commit === null ? ref : `${ref} ${shortId(commit)}`);
  if (upload !== null) return `upload ${shortId(harmless(upload.split("/").at(-1) ?? ""))}`;
  return harmless(image ?? "-");
}

/** Returns the code of a revision with the first line of its commit message, if it is known. */
export function describeCode(revision: Revision): string {
  const first = revision.commit?.message.split("\n", 1)[0] ?? "";
  const message = first.length > messageMax ? `${first.slice(0, messageMax - 1)}…` : first;
  return message === "" ? describeRevision(revision) : `${describeRevision(revision)}  ${harmless(message)}`;
}

const reasons: Readonly<Record<RevisionReason, string>> = {
  deploy: "deploy",
  latest: "latest commit",
  push: "push",
  pull_request: "pull request",
  variables: "variables",
  size: "resources",
  rollback: "rollback",
  redeploy: "redeploy",
  retry: "retry",
  restart: "restart",
  system: "restore",
};

/** Returns why a revision exists: `push`, `rollback to 3`. An older server does not send it. */
export function describeReason({ reason, based_on: from, triggered_by: trigger }: Revision): string {
  if (reason == null) return trigger;
  const text = reasons[reason] ?? reason;
  if (from?.number == null) return text;
  if (reason === "rollback") return `${text} to ${from.number}`;
  return reason === "redeploy" || reason === "retry" ? `${text} of ${from.number}` : text;
}

/** Returns the name of the key or member that made a revision. */
export function describeMaker({ made_by: maker }: Revision): string {
  if (maker == null) return "-";
  return maker.name === null ? (maker.kind === "system" ? "pierhead" : `deleted ${maker.kind}`) : harmless(maker.name);
}
