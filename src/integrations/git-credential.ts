import { writeFile } from "node:fs/promises";
import path from "node:path";

/** What a repository is read with: a password or token over http, or a key over ssh. */
export type RepositoryCredential = GitCredential | SshKey;

/** A stored key, and the hosts it may be shown to. */
export interface SshKey {
  /** OpenSSH's form, without a passphrase. */
  privateKey: string;
  /** Lines of known_hosts(5): another host is refused. */
  knownHosts: string;
}

/** Given to git on a pipe when it asks: never in a URL, an argument, a variable, a config file or a log line. */
export interface GitCredential {
  username: string;
  password: string;
}

/** The descriptor under which git and its askpass program see the pipe: the first after the standard three. */
const credentialFd = 3;

/**
 * Writes the program git asks for a user name and then for a password. It holds no secret: each call reads the next line
 * of the pipe, and git asks for the user name first.
 */
export async function writeAskpass(directory: string): Promise<string> {
  const file = path.join(directory, "askpass");
  await writeFile(file, `#!/bin/sh\nIFS= read -r line <&${credentialFd} && printf '%s\\n' "$line"\n`, { mode: 0o700 });
  return file;
}

/** What goes into the pipe. */
export function credentialLines({ username, password }: GitCredential): Uint8Array {
  return new TextEncoder().encode(`${username}\n${password}\n`);
}

/** A line break inside would be taken for the end of the user name. */
export const fitsLines = ({ username, password }: GitCredential) => !/[\r\n\0]/.test(username + password);
