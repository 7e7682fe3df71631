import { writeFile } from "node:fs/promises";
import path from "node:path";

/** Credential for a repository: a password or token over HTTP, or a key over ssh. */
export type RepositoryCredential = GitCredential | SshKey;

/** Stored key and the hosts that it may be used with. */
export interface SshKey {
  /** In OpenSSH format, without a passphrase. */
  privateKey: string;
  /** Lines of known_hosts(5). Other hosts are rejected. */
  knownHosts: string;
}

/** Username and secret that git reads from a pipe. They never appear in a URL, argument, variable, config file or log line. */
export interface GitCredential {
  username: string;
  password: string;
}

/** File descriptor of the pipe in git and its askpass program, the first one after the three standard ones. */
const credentialFd = 3;

/**
 * Writes the askpass program that git calls for a username and then for a password. The program contains no secret: each call reads
 * the next line of the pipe, and git asks for the username first.
 */
export async function writeAskpass(directory: string): Promise<string> {
  const file = path.join(directory, "askpass");
  await writeFile(file, `#!/bin/sh\nIFS= read -r line <&${credentialFd} && printf '%s\\n' "$line"\n`, { mode: 0o700 });
  return file;
}

/** Returns the content of the pipe. */
export function credentialLines({ username, password }: GitCredential): Uint8Array {
  return new TextEncoder().encode(`${username}\n${password}\n`);
}

/** Rejects line breaks, because git would read one as the end of the username. */
export const fitsLines = ({ username, password }: GitCredential) => !/[\r\n\0]/.test(username + password);
