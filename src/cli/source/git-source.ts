import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Environment } from "../context.ts";
import { usageFailure } from "../failure.ts";
import { harmless } from "../terminal/terminal.ts";

/** `https://...`, `ssh://...`, `file:///...`, `git@host:owner/repository`. */
export function isGitUrl(source: string): boolean {
  return /^(https?|ssh|git|file):\/\//.test(source) || /^[\w.-]+@[\w.-]+:[^\\]/.test(source);
}

/** `https://host/owner/hello-agent.git` -> `hello-agent`. */
export function repositoryName(url: string): string {
  return (
    url
      .replace(/\/+$/, "")
      .replace(/\.git$/, "")
      .split(/[/:]/)
      .at(-1) ?? ""
  );
}

const lookTimeoutMs = 20_000;

/**
 * The branch that HEAD of a repository names. Asked from here, with this user's git and credentials.
 * @throws CliFailure that asks for `--ref` when git cannot tell.
 */
export async function findDefaultBranch(url: string, environment: Environment, signal: AbortSignal): Promise<string> {
  let said = "";
  try {
    const args = ["-c", "protocol.ext.allow=never", "ls-remote", "--symref", "--", url, "HEAD"];
    // A question for a password would stand between the steps, and wait for ever in CI.
    const env = { ...environment, GIT_TERMINAL_PROMPT: "0" };
    const { stdout } = await promisify(execFile)("git", args, { signal, timeout: lookTimeoutMs, env });
    const branch = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(stdout)?.[1];
    if (branch !== undefined) return branch;
  } catch (error) {
    signal.throwIfAborted();
    const { stderr = "" } = error as { stderr?: string };
    said = stderr.trim().split("\n")[0]?.replaceAll(url, withoutUser(url)) ?? "";
  }
  const because = said === "" ? "" : ` git says: ${harmless(said)}`;
  throw usageFailure(`The default branch of ${withoutUser(url)} is not known here.${because}`, "Name one: --ref main");
}

/** A URL without what might be a token. */
export function withoutUser(url: string): string {
  return url.replace(/^(\w+:\/\/)[^/@]*@/, "$1");
}
