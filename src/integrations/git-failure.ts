import type { RepositoryCredential } from "./git-credential.ts";

/** A repository as a user names it, and what may be done to reach it. */
export interface GitRemote {
  /** https:// or http://; an absolute path or file:// only with `allowLocal`. */
  repoUrl: string;
  credential: RepositoryCredential | null;
  allowLocal: boolean;
  allowPrivateNetwork: boolean;
  signal: AbortSignal;
  /** For the whole operation, however many times git runs in it. */
  timeoutMs: number;
}

export type GitFailureReason =
  | "RefNotFound"
  | "AccessDenied"
  | "Unreachable"
  | "Timeout"
  | "Cancelled"
  | "UrlRefused"
  | "GitMissing"
  | "GitFailed";

/** Why git could not do it, in words for the user. Only `Unreachable` and `Timeout` are worth another try. */
export class GitFailure extends Error {
  readonly reason: GitFailureReason;
  constructor(reason: GitFailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "GitFailure";
    this.reason = reason;
  }
}

/** Where each line of git's own words leads. The first match counts. */
const meanings: [RegExp, GitFailureReason][] = [
  [
    /could not read (Username|Password)|Authentication failed|Access denied|error: 40[13]|Permission denied|Host key verification/i,
    "AccessDenied",
  ],
  [/couldn't find remote ref|not our ref|unadvertised object|no such remote ref/i, "RefNotFound"],
  [/not found|error: 404|does not appear to be a git repository|does not exist/i, "AccessDenied"],
  [/error: 30\d|redirect/i, "UrlRefused"],
  [
    /resolve host|connect|timed out|SSL|certificate|error: 5\d\d|early EOF|RPC failed|hung up|unable to access/i,
    "Unreachable",
  ],
];

/** env(1) could not find git. */
const notFoundExitCode = 127;

/** Turns what git printed into what the user can do about it. */
export function explainGit(end: { stderr: string; exitCode: number | null; signal: string | null }, remote: GitRemote) {
  if (end.exitCode === notFoundExitCode) {
    return new GitFailure(
      "GitMissing",
      "git is not installed on the machine that runs Pierhead. Install git 2.32 or newer.",
    );
  }
  const reason = meanings.find(([pattern]) => pattern.test(end.stderr))?.[1] ?? "GitFailed";
  const words = lastWords(end.stderr) || `ended with ${end.signal ?? `exit code ${end.exitCode}`}`;
  return new GitFailure(reason, `${advice(reason, remote)} (git: ${words})`);
}

function advice(reason: GitFailureReason, { repoUrl, credential }: GitRemote): string {
  const shown = shownUrl(repoUrl);
  switch (reason) {
    case "AccessDenied":
      if (!URL.canParse(repoUrl)) return `There is no git repository at ${shown} that this server may read.`;
      return credential === null
        ? `${shown} does not exist or needs a credential. Check the URL, or connect an integration that may read it.`
        : `${shown} does not exist or the credential of this integration may not read it.`;
    case "UrlRefused":
      return `${shown} answers with a redirect: the repository was moved or renamed. Use its present URL.`;
    case "Unreachable":
      return `${shown} could not be reached. Check the URL and this server's network.`;
    case "RefNotFound":
      return `${shown} does not have this commit any more.`;
    default:
      return `git failed for ${shown}.`;
  }
}

/** What ssh says stands before git's own words, which know no more than that it failed. */
const sshWords =
  /Permission denied|Host key verification|kex_exchange|Connection (refused|timed out|closed)|resolve host/i;

/** The cause stands in a line of its own, before those that say what could not go on. */
const diskWords = /No space left on device|Disk quota exceeded/;

/** The line that says most: git's own fatal one, or else the last, without the prefixes git gives it. */
function lastWords(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const line =
    lines.find((said) => diskWords.test(said)) ??
    lines.find((said) => sshWords.test(said) && !said.startsWith("fatal: ")) ??
    lines.findLast((said) => said.startsWith("fatal: ") && !said.startsWith("fatal: Could not read from")) ??
    lines.at(-1);
  return (line ?? "")
    .replace(/^(fatal|error|remote|warning): /, "")
    .trim()
    .slice(0, 300);
}

export function timedOut(remote: GitRemote, cause: unknown): GitFailure {
  const message = `${hostOf(remote.repoUrl)} did not answer within ${Math.round(remote.timeoutMs / 1000)} s. Try again, or check that this server can reach it.`;
  return new GitFailure("Timeout", message, { cause });
}

const hostOf = (repoUrl: string) => (URL.canParse(repoUrl) && new URL(repoUrl).host) || "The repository";

/** A URL as it may be shown: without the credential someone may have put into it, and on one short line. */
export function shownUrl(repoUrl: string): string {
  return repoUrl
    .replace(/\/\/[^/@]*@/, "//")
    .replace(/\p{Cc}/gu, "?")
    .slice(0, 200);
}
