import { readFile } from "node:fs/promises";
import { type RegistryCredential, registryOf } from "./images.ts";

/** The file that `docker login` writes. Credential helpers are not supported, because they are desktop programs. */
interface DockerConfig {
  auths?: Record<string, { auth?: string; username?: string; password?: string }>;
}

/**
 * Returns the credential for an image's registry from a docker `config.json`. Reads the file on each call, because the
 * operator may log in again at any time.
 * @returns null when the file does not exist or has no credential for the registry
 * @throws Error when the file is not JSON
 */
export async function readRegistryCredential(file: string, uri: string): Promise<RegistryCredential | null> {
  for (const { auth, username, password } of await entriesOf(file, uri)) {
    if (username !== undefined && password !== undefined) return { username, password };
    const [, user, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(auth ?? "", "base64").toString("utf8")) ?? [];
    if (user !== undefined && secret !== undefined) return { username: user, password: secret };
  }
  return null;
}

/** Returns whether the operator lists an image's registry in a docker `config.json`, with or without a credential. */
export async function isListedRegistry(file: string, uri: string): Promise<boolean> {
  return (await entriesOf(file, uri)).length > 0;
}

async function entriesOf(file: string, uri: string) {
  const text = await readFile(file, "utf8").catch(() => "{}");
  const { auths = {} } = JSON.parse(text) as DockerConfig;
  const registry = registryOf(uri);
  const names = registry === "docker.io" ? ["https://index.docker.io/v1/", "index.docker.io", "docker.io"] : [registry];
  return names.flatMap((one) => [one, `https://${one}`, `http://${one}`]).flatMap((name) => auths[name] ?? []);
}
