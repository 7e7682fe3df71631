import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import type { Readable, Writable } from "node:stream";
import { childEnvironment } from "../base/child-environment.ts";
import type { SshKey } from "./git-credential.ts";
import { GitFailure } from "./git-failure.ts";

/** Target of ssh. */
export interface SshTarget {
  host: string;
  /** null: 22. */
  port: number | null;
  /** Checked address; null: ssh resolves the name. */
  address: string | null;
}

/** Ssh setup for one operation of git. */
export interface Ssh {
  /** Variables with which git uses this setup. */
  env: string[];
  close(): Promise<void>;
}

/**
 * Starts an ssh-agent for this operation and passes the key on a pipe, so that it is in no file, argument or variable. ssh reads no
 * configuration of this machine or its user, never prompts, forwards nothing and runs no other program.
 * @throws GitFailure `AccessDenied` for a key that ssh cannot use, `GitMissing` without OpenSSH.
 */
export async function openSsh(
  scratchDir: string,
  { key, target, timeoutMs }: { key: SshKey; target: SshTarget; timeoutMs: number },
  signal: AbortSignal,
): Promise<Ssh> {
  // An agent that outlives a killed server drops the key after this time.
  const lifeS = Math.ceil(timeoutMs / 1_000);
  const program = path.join(scratchDir, "ssh");
  await writeFile(path.join(scratchDir, "known_hosts"), `${key.knownHosts.replaceAll("\r", "")}\n`, { mode: 0o600 });
  await writeFile(path.join(scratchDir, "ssh-config"), configuration(scratchDir, target), { mode: 0o600 });
  await writeFile(program, `#!/bin/sh\ncd "$(dirname "$0")" && exec ssh -F ssh-config "$@"\n`, { mode: 0o700 });
  const agent = spawn("ssh-agent", ["-D", "-a", socket, "-t", String(lifeS)], {
    cwd: scratchDir,
    stdio: ["ignore", "pipe", "pipe"],
    env: childEnvironment(),
  });
  const close = () => end(agent);
  try {
    await begun(agent, signal);
    await addKey(scratchDir, key.privateKey, signal);
  } catch (error) {
    await close();
    throw error;
  }
  return { env: [`GIT_SSH=${program}`, "GIT_SSH_VARIANT=ssh"], close };
}

/**
 * Socket of the agent, relative to the scratch directory in which all programs run. A socket path is limited to 107 bytes, and the
 * scratch directory of a build alone takes 68 bytes below the data directory.
 */
const socket = "agent";

async function begun(agent: ChildProcess, signal: AbortSignal): Promise<void> {
  let words = "";
  agent.stderr?.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-300);
  });
  const failed = new Promise<never>((_, reject) => {
    agent.once("error", (error: NodeJS.ErrnoException) => reject(error.code === "ENOENT" ? noOpenSsh(error) : error));
    agent.once("close", () => reject(new GitFailure("GitFailed", `ssh-agent does not start here: ${words.trim()}`)));
  });
  // If the process did not start, there are no pipes.
  if (agent.pid === undefined) await failed;
  // The agent prints its socket when it is ready.
  await Promise.race([once(agent.stdout as Readable, "data", { signal }), failed]);
}

async function addKey(scratchDir: string, privateKey: string, signal: AbortSignal): Promise<void> {
  const add = spawn("ssh-add", ["-q", "-"], {
    env: { ...childEnvironment(), SSH_ASKPASS_REQUIRE: "never", SSH_AUTH_SOCK: socket },
    cwd: scratchDir,
    stdio: ["pipe", "ignore", "pipe"],
    signal,
    detached: true,
  });
  const closed = once(add, "close") as Promise<[number | null]>;
  if (add.pid === undefined) await closed;
  const stdin = add.stdin as Writable;
  stdin.on("error", () => {});
  stdin.end(`${privateKey.replaceAll("\r", "").trimEnd()}\n`);
  add.stderr?.resume();
  const [exitCode] = await closed;
  if (exitCode === 0) return;
  throw new GitFailure(
    "AccessDenied",
    "The SSH key of this integration cannot be used: it must be a private key without a passphrase. Store it again.",
  );
}

async function end(agent: ChildProcess): Promise<void> {
  if (agent.pid === undefined || agent.exitCode !== null || agent.signalCode !== null) return;
  const closed = once(agent, "close");
  agent.kill("SIGKILL");
  await closed;
}

function configuration(scratchDir: string, { host, port, address }: SshTarget): string {
  const alias = port === null || port === 22 ? host : `[${host}]:${port}`;
  return [
    "Host *",
    ...(address === null ? [] : [`HostName ${address}`]),
    `HostKeyAlias ${alias}`,
    `UserKnownHostsFile "${path.join(scratchDir, "known_hosts")}"`,
    "GlobalKnownHostsFile /dev/null",
    "StrictHostKeyChecking yes",
    "UpdateHostKeys no",
    "CheckHostIP no",
    `IdentityAgent ${socket}`,
    "IdentityFile none",
    "PreferredAuthentications publickey",
    "BatchMode yes",
    "ProxyCommand none",
    "PermitLocalCommand no",
    "ForwardAgent no",
    "ForwardX11 no",
    "ClearAllForwardings yes",
    "ControlMaster no",
    "ControlPath none",
    "ConnectTimeout 15",
    "",
  ].join("\n  ");
}

const noOpenSsh = (cause: Error) =>
  new GitFailure("GitMissing", "OpenSSH is not installed on the machine that runs Pierhead. Install openssh-client.", {
    cause,
  });
