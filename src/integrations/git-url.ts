import path from "node:path";
import { fileURLToPath } from "node:url";
import { childEnvironment } from "../base/child-environment.ts";
import { fitsLines } from "./git-credential.ts";
import { GitFailure, type GitRemote, shownUrl } from "./git-failure.ts";
import { PrivateAddressError, resolvePublicHost } from "./outbound-address.ts";
import type { SshTarget } from "./ssh.ts";

export interface CheckedUrl {
  /** Canonical address, so that git uses exactly what was checked. */
  url: string;
  /** Value of GIT_ALLOW_PROTOCOL. */
  protocols: string;
  /** Value of `http.curloptResolve`; null if no address is pinned. */
  pinned: string | null;
  /** Target of ssh, if ssh is used. */
  ssh?: SshTarget;
}

/**
 * Checks whether this server may use a repository URL with the given credential.
 * @throws GitFailure `UrlRefused`; `Unreachable` if the host does not resolve, `AccessDenied` for an invalid credential.
 */
export async function checkUrl(remote: GitRemote): Promise<CheckedUrl> {
  const { repoUrl, credential, allowLocal, allowPrivateNetwork } = remote;
  if (credential !== null && "password" in credential && !fitsLines(credential)) {
    throw new GitFailure("AccessDenied", "The credential of this integration contains a line break. Store it again.");
  }
  const local = localPath(repoUrl);
  if (local !== null) {
    if (allowLocal) return { url: local, protocols: "file", pinned: null };
    throw refused(
      `${shownUrl(repoUrl)} is a path on this server, which only an operator can allow (PIERHEAD_ALLOW_LOCAL_SOURCES=true).`,
    );
  }
  const ssh = sshFormOf(repoUrl);
  if (ssh !== null) return checkSsh(remote, ssh);
  const url = URL.canParse(repoUrl) ? new URL(repoUrl) : null;
  if (url === null || !["https:", "http:"].includes(url.protocol)) {
    throw refused(`'${shownUrl(repoUrl)}' is not a repository URL that can be used here. Use https://<host>/<path>.`);
  }
  if (url.username !== "" || url.password !== "") {
    throw refused("A repository URL must not contain a user name or password. Store the credential in an integration.");
  }
  if (url.search !== "" || url.hash !== "") throw refused(`${shownUrl(repoUrl)} must not have a query or fragment.`);
  if (!/^([\w.-]+|\[[0-9a-f:.]+\])$/.test(url.hostname)) throw refused(`${shownUrl(repoUrl)} has no usable host name.`);
  if (url.protocol === "http:" && credential !== null && !allowPrivateNetwork) {
    throw refused(`${shownUrl(repoUrl)} would send the credential unencrypted. Use https://.`);
  }
  const protocols = url.protocol.slice(0, -1);
  if (allowPrivateNetwork) return { url: url.href, protocols, pinned: null };
  if (url.protocol === "http:" && plainHttpProxies.some((name) => childEnvironment()[name])) {
    throw refused(
      `${shownUrl(repoUrl)} would go through this server's proxy, which looks the name up again. Use https://, or an operator can allow private networks.`,
    );
  }
  return { url: url.href, protocols, pinned: await pin(url) };
}

/**
 * Variables with which git sends plain HTTP through a proxy. A proxy looks a name up itself, so its host could lead it into the
 * operator's network. With https the host there needs a certificate for that name.
 */
const plainHttpProxies = ["http_proxy", "all_proxy", "ALL_PROXY"] as const;

/** Returns `host:port:address,...`, with which curl connects to the checked addresses without another lookup. */
async function pin(url: URL): Promise<string> {
  const addresses = await publicAddresses(url.hostname);
  const shown = addresses.map((address) => (address.includes(":") ? `[${address}]` : address));
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? 443 : 80)}:${shown.join(",")}`;
}

async function publicAddresses(host: string): Promise<string[]> {
  try {
    return await resolvePublicHost(host);
  } catch (error) {
    if (error instanceof PrivateAddressError) throw refused(error.message);
    throw new GitFailure("Unreachable", `The host name ${host} does not resolve. Check the URL.`, { cause: error });
  }
}

interface SshAddress {
  user: string | null;
  host: string;
  port: number | null;
  path: string;
  /** Whether the form is `user@host:path`, whose path may be relative to the home directory. */
  isShort: boolean;
}

/** Parses `ssh://user@host:port/path` and `user@host:path`. Returns null for other forms. */
function sshFormOf(repoUrl: string): SshAddress | null {
  const [, user, host, port, path] =
    /^ssh:\/\/(?:([a-z0-9_][\w.-]*)@)?([a-z0-9][\w.-]*)(?::(\d{1,5}))?\/([^\s?#]+)$/i.exec(repoUrl) ??
    /^([a-z0-9_][\w.-]*)@([a-z0-9][a-z0-9.-]*):()([^\s:/-][^\s?#]*)$/i.exec(repoUrl) ??
    [];
  if (host === undefined || path === undefined) return null;
  return { user: user ?? null, host, port: port ? Number(port) : null, path, isShort: !repoUrl.includes("://") };
}

/** Checks an ssh target. @throws GitFailure without a key, or for a host that must not be reached. */
async function checkSsh({ repoUrl, credential, allowPrivateNetwork }: GitRemote, at: SshAddress): Promise<CheckedUrl> {
  const { user, host, port, path, isShort } = at;
  if (credential === null || !("privateKey" in credential)) {
    throw new GitFailure(
      "AccessDenied",
      `${shownUrl(repoUrl)} needs an SSH key. Name an integration with an 'ssh_key' in integration_id, or use https://${host}/${path}.`,
    );
  }
  if (/['"\\]/.test(path)) throw refused(`${shownUrl(repoUrl)} must not have quotes or backslashes.`);
  const [address = null] = allowPrivateNetwork ? [] : await publicAddresses(host);
  const account = user === null ? "" : `${user}@`;
  const long = `ssh://${account}${host}${port === null ? "" : `:${port}`}/${path}`;
  return {
    url: isShort ? `${account}${host}:${path}` : long,
    protocols: "ssh",
    pinned: null,
    ssh: { host, port, address },
  };
}

function localPath(repoUrl: string): string | null {
  if (/\p{Cc}/u.test(repoUrl)) return null;
  if (repoUrl.startsWith("/") && !repoUrl.startsWith("//")) return path.normalize(repoUrl);
  if (!repoUrl.startsWith("file:///")) return null;
  try {
    return fileURLToPath(repoUrl);
  } catch {
    return null; // for example an encoded slash
  }
}

const refused = (message: string) => new GitFailure("UrlRefused", message);
