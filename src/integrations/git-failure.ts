import type { RepositoryCredential } from "./git-credential.ts";

/** Repository as the user gave it, with its credential and limits. */
export interface GitRemote {
  /** https:// or http://; an absolute path or file:// only with `allowLocal`. */
  repoUrl: string;
  credential: RepositoryCredential | null;
  allowLocal: boolean;
  allowPrivateNetwork: boolean;
  signal: AbortSignal;
  /** Time limit of the whole operation, which may run git several times. */
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
  | "TooLarge"
  | "GitFailed";

/** Failure of a git operation, with a message for the user. Only `Unreachable` and `Timeout` are retried. */
export class GitFailure extends Error {
  readonly reason: GitFailureReason;
  constructor(reason: GitFailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "GitFailure";
    this.reason = reason;
  }
}

/** What git may take of memory for one object. Code hosts accept files of 100 MB. */
export const objectMibMax = 128;

/** Reason for each pattern of git's output. The first match counts. */
const meanings: [RegExp, GitFailureReason][] = [
  [/attempting to allocate .* over limit/i, "TooLarge"],
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

/** Exit code of env(1) if it cannot find git. */
const notFoundExitCode = 127;

/** Converts the output of git to a failure with advice for the user. */
export function explainGit(end: { stderr: string; exitCode: number | null; signal: string | null }, remote: GitRemote) {
  if (end.exitCode === notFoundExitCode) {
    return gitMissing("the program git was not found");
  }
  const reason = meanings.find(([pattern]) => pattern.test(end.stderr))?.[1] ?? "GitFailed";
  const words = lastWords(end.stderr) || `ended with ${end.signal ?? `exit code ${end.exitCode}`}`;
  return new GitFailure(reason, `${advice(reason, remote)} (git: ${words})`);
}

/** @param words why git does not start */
export const gitMissing = (words: string, cause?: Error) =>
  new GitFailure(
    "GitMissing",
    `git cannot start where Pierhead runs (${words}). Install git 2.30 or newer and env(1) there, in an image of your own too.`,
    { cause },
  );

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
    case "TooLarge":
      return `git needs more than ${objectMibMax} MiB of memory at once for ${shown}, which is the limit: for a large file, or for the list of a very long history. Keep large files out of the repository, or use one with a shorter history.`;
    case "RefNotFound":
      return `${shown} does not have this commit any more.`;
    default:
      return `git failed for ${shown}.`;
  }
}

/** Messages of ssh, which precede those of git and are more specific. */
const sshWords =
  /Permission denied|Host key verification|kex_exchange|Connection (refused|timed out|closed)|resolve host/i;

/** Messages about a full disk, which precede the lines about the consequences. */
const diskWords = /No space left on device|Disk quota exceeded/;

/** Returns the most specific line without git's prefixes: a disk or ssh message, the last fatal line, or the last line. */
function lastWords(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const line =
    lines.find((text) => diskWords.test(text)) ??
    lines.find((text) => sshWords.test(text) && !text.startsWith("fatal: ")) ??
    lines.findLast((text) => text.startsWith("fatal: ") && !text.startsWith("fatal: Could not read from")) ??
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

/** Returns a URL for messages, without a credential and limited to one line of 200 characters. */
export function shownUrl(repoUrl: string): string {
  return repoUrl
    .replace(/\/\/[^/@]*@/, "//")
    .replace(/\p{Cc}/gu, "?")
    .slice(0, 200);
}
