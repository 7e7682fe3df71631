import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Environment } from "../context.ts";
import { usageFailure } from "../failure.ts";
import { harmless } from "../terminal/terminal.ts";

/** Returns whether the text is a git URL: `https://...`, `ssh://...`, `file:///...`, `git@host:owner/repository`. */
export function isGitUrl(source: string): boolean {
  return /^(https?|ssh|git|file):\/\//.test(source) || /^[\w.-]+@[\w.-]+:[^\\]/.test(source);
}

/** Returns the repository name: `https://host/owner/hello-agent.git` gives `hello-agent`. */
export function repositoryName(url: string): string {
  return (
    url
      .replace(/\/+$/, "")
      .replace(/\.git$/, "")
      .split(/[/:]/)
      .at(-1) ?? ""
  );
}

const gitTimeoutMs = 20_000;

/**
 * Returns the default branch of a repository, by a local call of git with the credentials of this user.
 * @throws CliFailure with a hint to use `--ref` if git cannot find the branch.
 */
export async function findDefaultBranch(url: string, environment: Environment, signal: AbortSignal): Promise<string> {
  let gitError = "";
  try {
    const args = ["-c", "protocol.ext.allow=never", "ls-remote", "--symref", "--", url, "HEAD"];
    // A password prompt would disturb the output, and block in CI without end.
    const env = { ...environment, GIT_TERMINAL_PROMPT: "0" };
    const { stdout } = await promisify(execFile)("git", args, { signal, timeout: gitTimeoutMs, env });
    const branch = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(stdout)?.[1];
    if (branch !== undefined) return branch;
  } catch (error) {
    signal.throwIfAborted();
    const { stderr = "" } = error as { stderr?: string };
    gitError = stderr.trim().split("\n")[0]?.replaceAll(url, withoutUser(url)) ?? "";
  }
  const because = gitError === "" ? "" : ` git says: ${harmless(gitError)}`;
  throw usageFailure(`Cannot find the default branch of ${withoutUser(url)}.${because}`, "Set a branch: --ref main");
}

/** Removes the user part of a URL, which may be a token. */
export function withoutUser(url: string): string {
  return url.replace(/^(\w+:\/\/)[^/@]*@/, "$1");
}
