import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Readable, Writable } from "node:stream";
import { credentialLines, writeAskpass } from "./git-credential.ts";
import { explainGit, GitFailure, type GitRemote, timedOut } from "./git-failure.ts";
import { checkUrl } from "./git-url.ts";
import { openSsh, type Ssh } from "./ssh.ts";

/** Git bound to one remote: knows its canonical address and runs hardened. */
export interface Git {
  /** Goes after `--` wherever the remote is named. */
  readonly url: string;
  /** Owned by this operation and removed at its end. */
  readonly scratchDir: string;
  run(args: string[]): Promise<string>;
}

/**
 * Runs `work` with a git that reads no configuration of this machine or of its user, runs no hook, follows no redirect,
 * speaks only the protocols of the URL, asks nobody, and gets the credential on a pipe.
 * @throws GitFailure
 */
export async function withGit<T>(remote: GitRemote, work: (git: Git) => Promise<T>): Promise<T> {
  const deadline = AbortSignal.timeout(remote.timeoutMs);
  const signal = AbortSignal.any([remote.signal, deadline]);
  const scratchDir = await mkdtemp(path.join(tmpdir(), "pierhead-git-"));
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
    return await work({ url, scratchDir, run: (args) => runGit(args, { remote, env, signal, scratchDir }) });
  } catch (error) {
    if (remote.signal.aborted) throw new GitFailure("Cancelled", "git was stopped.", { cause: error });
    if (deadline.aborted) throw timedOut(remote, error);
    throw error;
  } finally {
    await ssh?.close();
    await rm(scratchDir, { recursive: true, force: true, maxRetries: 3 });
  }
}

interface GitCall {
  remote: GitRemote;
  /** Arguments of env(1): what it takes away and sets. */
  env: string[];
  signal: AbortSignal;
  scratchDir: string;
}

/** What git answers in full: one line a ref asked for, so anything above is not what we asked. */
const answerBytesMax = 8 * 1024 * 1024;

/**
 * Started by hand and not with execa: git that needs no credential leaves the pipe unread, which must not fail the call.
 * env(1) becomes git, with the environment of this server (PATH, proxies, certificates) but for what we take away.
 */
async function runGit(args: string[], { remote, env, signal, scratchDir }: GitCall): Promise<string> {
  signal.throwIfAborted();
  const { credential } = remote;
  const lines = credential !== null && "password" in credential ? credentialLines(credential) : "";
  const git = spawn("env", [...env, "git", ...args], {
    cwd: scratchDir,
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const closed = once(git, "close") as Promise<[number | null, string | null]>;
  // There was no room for one more process, or its pipes: then there are none, and why is all that is told.
  if (git.pid === undefined) await closed;
  const stop = () => killGroup(git);
  signal.addEventListener("abort", stop, { once: true });
  try {
    const pipe = git.stdio[3] as Writable;
    pipe.on("error", () => {});
    pipe.end(lines);
    const [stdout, stderr, exit] = await Promise.all([
      readAll(git.stdout as Readable, stop),
      readAll(git.stderr as Readable, stop),
      closed,
    ]);
    if (exit[0] === 0) return stdout;
    throw explainGit({ stderr, exitCode: exit[0], signal: exit[1] }, remote);
  } finally {
    signal.removeEventListener("abort", stop);
  }
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

/** git and its transport helpers, which have no memory of their own worth a gentle end. */
function killGroup(git: ChildProcess): void {
  if (git.pid === undefined || git.exitCode !== null || git.signalCode !== null) return;
  try {
    process.kill(-git.pid, "SIGKILL");
  } catch {
    // gone in the meantime
  }
}

/** Everything git would otherwise take from its user or this machine. HOME is for versions without GIT_CONFIG_GLOBAL. */
function environment(scratchDir: string): string[] {
  const inherited = [
    "DIR WORK_TREE INDEX_FILE OBJECT_DIRECTORY ALTERNATE_OBJECT_DIRECTORIES COMMON_DIR NAMESPACE PREFIX CEILING_DIRECTORIES",
    "CONFIG CONFIG_COUNT CONFIG_PARAMETERS SSH SSH_COMMAND PROXY_COMMAND PROXY_SSL_KEY EXEC_PATH TEMPLATE_DIR TRACE TRACE2",
    "TRACE_CURL TRACE_PACKET TRACE_SETUP CURL_VERBOSE EXTERNAL_DIFF EDITOR PAGER SHALLOW_FILE GRAFT_FILE REPLACE_REF_BASE",
  ].flatMap((line) => line.split(" "));
  return [
    ...inherited.flatMap((name) => ["-u", `GIT_${name}`]),
    ...["-u", "SSH_ASKPASS"],
    "GIT_TERMINAL_PROMPT=0",
    "GIT_CONFIG_NOSYSTEM=1",
    "GIT_ATTR_NOSYSTEM=1",
    "GIT_LFS_SKIP_SMUDGE=1",
    `GIT_CONFIG_GLOBAL=${path.join(scratchDir, ".gitconfig")}`,
    `HOME=${scratchDir}`,
    `XDG_CONFIG_HOME=${scratchDir}`,
    "LC_ALL=C",
  ];
}

/**
 * The only configuration git sees. A file and not `-c`, because the other end of a local fetch drops `-c`.
 * `safe.directory`: a local repository may belong to another user; we only read it and run nothing it holds.
 * `http.lowSpeed*`: a stalled transfer ends after 60 s even when we are gone.
 */
function configuration(pinned: string | null): string {
  return [
    "[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tautocrlf = false",
    "[credential]\n\thelper =",
    `[http]\n\tfollowRedirects = false\n\tlowSpeedLimit = 1\n\tlowSpeedTime = 60${pinned === null ? "" : `\n\tcurloptResolve = ${pinned}`}`,
    "[protocol]\n\tversion = 2",
    "[safe]\n\tdirectory = *",
    "[gc]\n\tauto = 0",
    "[maintenance]\n\tauto = false",
    "[fetch]\n\trecurseSubmodules = false",
    "[submodule]\n\trecurse = false",
    "[init]\n\tdefaultBranch = none",
    "[advice]\n\tdetachedHead = false\n",
  ].join("\n");
}
