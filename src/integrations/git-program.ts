import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Readable, Writable } from "node:stream";
import { childEnvironment } from "../base/child-environment.ts";
import { removeTree } from "../base/remove-tree.ts";
import { credentialLines, writeAskpass } from "./git-credential.ts";
import { explainGit, GitFailure, type GitRemote, gitMissing, objectMibMax, shownUrl, timedOut } from "./git-failure.ts";
import { checkUrl } from "./git-url.ts";
import { openSsh, type Ssh } from "./ssh.ts";
import { watchedFilesMax, watchSize } from "./watch-size.ts";

/** Begins the names of the temporary directories of git. */
export const gitPrefix = "pierhead-git-";

/** Hardened git for one remote with a canonical address. */
export interface Git {
  /** Address of the remote, passed after `--`. */
  readonly url: string;
  /** Directory of this operation, removed at its end. */
  readonly scratchDir: string;
  run(args: string[]): Promise<string>;
  /** Passes on each entry that a command with `-z` prints, without keeping it, and ends the command when `takes` returns false. */
  each(args: string[], takes: (entry: Buffer) => boolean): Promise<void>;
}

/**
 * Runs `work` with a git that reads no configuration of this machine or its user, runs no hook, follows no redirect, uses only the
 * protocol of the URL, never prompts, and reads the credential from a pipe.
 * @param options.bytesMax limit of what the host makes git store, because a host sends what it likes. Infinity: the caller limits it.
 * @throws GitFailure
 */
export async function withGit<T>(
  remote: GitRemote,
  work: (git: Git) => Promise<T>,
  { bytesMax = storedBytesMax } = {},
): Promise<T> {
  const deadline = AbortSignal.timeout(remote.timeoutMs);
  const full = new AbortController();
  const signal = AbortSignal.any([remote.signal, deadline, full.signal]);
  const scratchDir = await mkdtemp(path.join(tmpdir(), gitPrefix));
  const endWatch = Number.isFinite(bytesMax) ? watchSize(scratchDir, bytesMax, () => full.abort()) : undefined;
  let ssh: Ssh | undefined;
  try {
    const { url, protocols, pinned, ssh: target } = await checkUrl(remote);
    const { credential } = remote;
    if (target !== undefined && credential !== null && "privateKey" in credential) {
      ssh = await openSsh(scratchDir, { key: credential, target, timeoutMs: remote.timeoutMs }, signal);
    }
    await writeFile(path.join(scratchDir, ".gitconfig"), configuration(pinned));
    const env = [
      ...environment(scratchDir),
      `GIT_ALLOW_PROTOCOL=${protocols}`,
      `GIT_ASKPASS=${await writeAskpass(scratchDir)}`,
      ...(ssh?.env ?? []),
    ];
    const call = { remote, env, signal, scratchDir };
    if (pinned !== null && url.startsWith("http:")) await checkPinning(call);
    return await work({
      url,
      scratchDir,
      run: (args) => runGit(args, call, readAll),
      async each(args, takes) {
        let isEnough = false;
        const reading = async (stdout: Readable, stop: () => void) => {
          let rest: Buffer = Buffer.alloc(0);
          for await (const chunk of stdout as AsyncIterable<Buffer>) {
            if (isEnough) continue;
            rest = takeEntries(Buffer.concat([rest, chunk]), (entry) => {
              isEnough ||= !takes(entry);
            });
            isEnough ||= rest.length > entryBytesMax;
            if (isEnough) stop();
          }
          return "";
        };
        await runGit(args, call, reading).catch((error: unknown) => {
          if (!isEnough) throw error;
        });
      },
    });
  } catch (error) {
    if (remote.signal.aborted) throw new GitFailure("Cancelled", "git was stopped.", { cause: error });
    if (full.signal.aborted) throw tooLarge(remote, bytesMax);
    if (deadline.aborted) throw timedOut(remote, error);
    throw error;
  } finally {
    endWatch?.();
    await ssh?.close();
    await removeTree(scratchDir);
  }
}

/** A path is shorter. What follows a longer one is not read. */
const entryBytesMax = 1024 * 1024;

/** Passes on what ends with NUL. @returns what is left */
function takeEntries(bytes: Buffer, take: (entry: Buffer) => void): Buffer {
  let from = 0;
  for (let end = bytes.indexOf(0); end !== -1; end = bytes.indexOf(0, from)) {
    take(bytes.subarray(from, end));
    from = end + 1;
  }
  return bytes.subarray(from);
}

/** Hosts that cannot leave out files send a whole commit, or the whole history for a short commit id. */
const storedBytesMax = 1024 * 1024 * 1024;

const tooLarge = ({ repoUrl }: GitRemote, bytesMax: number) =>
  new GitFailure(
    "TooLarge",
    `${shownUrl(repoUrl)} sends more than ${Math.floor(bytesMax / 1024 / 1024)} MiB or ${watchedFilesMax} branches and tags, which is too large to look into.`,
  );

interface GitCall {
  remote: GitRemote;
  /** Arguments of env(1): the variables to set. */
  env: string[];
  signal: AbortSignal;
  scratchDir: string;
}

/** Limit of the output of git, which has one line per requested ref. */
const answerBytesMax = 8 * 1024 * 1024;

/**
 * Runs git with node:child_process, because git does not read the pipe if it needs no credential, and that must not fail the call.
 * env(1) adds to what git may inherit of this server (PATH, proxies, certificates).
 */
async function runGit(
  args: string[],
  { remote, env, signal, scratchDir }: GitCall,
  read: (stdout: Readable, stop: () => void) => Promise<string>,
): Promise<string> {
  signal.throwIfAborted();
  const { credential } = remote;
  const lines = credential !== null && "password" in credential ? credentialLines(credential) : "";
  const git = spawn("env", [...env, "git", ...args], {
    cwd: scratchDir,
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe"],
    env: childEnvironment(),
  });
  const closed = once(git, "close") as Promise<[number | null, string | null]>;
  // The process did not start, for example at the process or descriptor limit. There are no pipes, only the error event.
  if (git.pid === undefined) await closed.catch(throwNotStarted);
  const stop = () => killGroup(git);
  let isTooLong = false;
  let lastWords: NodeJS.Timeout | undefined;
  const stopLong = () => {
    isTooLong = true;
    stop();
  };
  signal.addEventListener("abort", stop, { once: true });
  git.once("exit", () => {
    lastWords = setTimeout(stop, lastWordsMs);
  });
  try {
    const pipe = git.stdio[3] as Writable;
    pipe.on("error", () => {});
    pipe.end(lines);
    const [stdout, stderr, exit] = await Promise.all([
      read(git.stdout as Readable, stopLong),
      readAll(git.stderr as Readable, stopLong),
      closed,
    ]);
    if (isTooLong) throw new GitFailure("TooLarge", "The repository is too large: git answered with more than 8 MiB.");
    if (exit[0] === 0) return stdout;
    throw explainGit({ stderr, exitCode: exit[0], signal: exit[1] }, remote);
  } finally {
    signal.removeEventListener("abort", stop);
    clearTimeout(lastWords);
  }
}

/** Time for a helper to end after git. What it says until then explains the failure. */
const lastWordsMs = 1_000;

/**
 * Checks that this git connects to the checked addresses: before 2.37 it ignores `http.curloptResolve` and looks the name up again
 * (DNS rebinding). With https the host there needs a certificate for the name.
 * @throws GitFailure `UrlRefused`
 */
async function checkPinning(call: GitCall): Promise<void> {
  const printed = await runGit(["version"], call, readAll);
  const [, major = 0, minor = 0] = /(\d+)\.(\d+)/.exec(printed)?.map(Number) ?? [];
  if (major > 2 || (major === 2 && minor >= 37)) return;
  throw new GitFailure(
    "UrlRefused",
    `${shownUrl(call.remote.repoUrl)} is not encrypted, which needs git 2.37 or newer on this server. Use https://, or an operator can allow private networks.`,
  );
}

/** @throws GitFailure if a program is missing, and the error itself if a later attempt may succeed. */
function throwNotStarted(error: NodeJS.ErrnoException): never {
  if (error.code === "ENOENT" || error.code === "EACCES") throw gitMissing(error.message, error);
  throw error;
}

async function readAll(stream: Readable, stop: () => void): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > answerBytesMax) stop();
    else chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/**
 * Kills git and its transport helpers immediately, because they have no state to save. A helper may outlive git and keep its pipes: ssh
 * does while its host sends. The group has the id of git until its last process ends, and is not called after that.
 */
function killGroup(git: ChildProcess): void {
  if (git.pid === undefined) return;
  try {
    process.kill(-git.pid, "SIGKILL");
  } catch {
    // the process has already exited
  }
}

/** Git inherits no variable that configures it. HOME is for versions without GIT_CONFIG_GLOBAL. */
function environment(scratchDir: string): string[] {
  return [
    "GIT_TERMINAL_PROMPT=0",
    "GIT_CONFIG_NOSYSTEM=1",
    "GIT_ATTR_NOSYSTEM=1",
    "GIT_LFS_SKIP_SMUDGE=1",
    `GIT_ALLOC_LIMIT=${objectMibMax}m`,
    `GIT_CONFIG_GLOBAL=${path.join(scratchDir, ".gitconfig")}`,
    `HOME=${scratchDir}`,
    `XDG_CONFIG_HOME=${scratchDir}`,
    "LC_ALL=C",
  ];
}

/**
 * Writes the only configuration that git reads. It is a file because the other end of a local fetch drops `-c`.
 * `safe.directory`: a local repository may belong to another user, and git only reads it and runs nothing from it.
 * `core.bigFileThreshold`, `fetch.unpackLimit`: larger files are not held in memory. What a host sends as a difference is, and 16 kB of
 * that may stand for any size, so GIT_ALLOC_LIMIT ends a git that wants more.
 * `log.mailmap`: git keeps all of a .mailmap in memory, which takes thirty times its size.
 * `http.lowSpeed*`: a stalled transfer ends after 60 s even if this server has been killed.
 */
function configuration(pinned: string | null): string {
  return [
    "[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tautocrlf = false\n\tbigFileThreshold = 64m",
    "[credential]\n\thelper =",
    `[http]\n\tfollowRedirects = false\n\tlowSpeedLimit = 1\n\tlowSpeedTime = 60${pinned === null ? "" : `\n\tcurloptResolve = ${pinned}`}`,
    "[protocol]\n\tversion = 2",
    "[safe]\n\tdirectory = *",
    "[gc]\n\tauto = 0",
    "[maintenance]\n\tauto = false",
    "[fetch]\n\trecurseSubmodules = false\n\tunpackLimit = 1",
    "[pack]\n\tthreads = 1",
    "[submodule]\n\trecurse = false",
    "[init]\n\tdefaultBranch = none",
    "[log]\n\tmailmap = false",
    "[advice]\n\tdetachedHead = false\n",
  ].join("\n");
}
