import type { RepositoryCredential } from "./git-credential.ts";
import { GitFailure, shownUrl } from "./git-failure.ts";
import type { GithubApp, GithubApps } from "./github-app.ts";
import { HostFailure } from "./host-failure.ts";

/** Credential or installation with which a workspace reads repositories. */
export interface OpenIntegration {
  id: string;
  host: "github" | "gitlab" | "gitea" | "bitbucket" | "git";
  installationId: number | null;
  /** The credential applies to repositories below this address. */
  url: string;
  username: string | null;
  token: string | null;
  sshKey: string | null;
  sshKnownHosts: string | null;
}

/** Permissions and limits of git for one repository. */
export interface GitAccess {
  credential: RepositoryCredential | null;
  allowPrivateNetwork: boolean;
}

/** Username that a host requires next to a token. */
const usernames: Record<OpenIntegration["host"], string> = {
  github: "x-access-token",
  gitlab: "oauth2",
  gitea: "oauth2",
  bitbucket: "x-token-auth",
  git: "git",
};

/**
 * Creates the credential to read a repository, for a single use.
 * @param integration undefined: it was deleted; null: the repository is public.
 * @throws GitFailure `AccessDenied` when the integration is not for this repository; `Unreachable`.
 */
export async function gitAccess(
  { github: apps, allowPrivateNetwork }: { github: GithubApps; allowPrivateNetwork: boolean },
  { integration, repoUrl }: { integration: OpenIntegration | null | undefined; repoUrl: string },
  signal: AbortSignal,
): Promise<GitAccess> {
  if (integration === null) return { credential: null, allowPrivateNetwork };
  if (integration === undefined) throw denied("The integration of this deployment is not there any more.");
  if (!isBelow(integration.url, repoUrl)) throw denied(outsideIntegration(repoUrl, integration));
  const { installationId, token, sshKey, sshKnownHosts } = integration;
  if (isSsh(repoUrl)) {
    if (sshKey === null || sshKnownHosts === null)
      throw denied("This integration has no SSH key. Store one, or use the repository's https address.");
    return { credential: { privateKey: sshKey, knownHosts: sshKnownHosts }, allowPrivateNetwork };
  }
  if (installationId !== null) {
    const github = await apps.current();
    if (github === null) throw denied("This server has no GitHub App any more, which this integration belongs to.");
    const minted = await mint(github, installationId, repoUrl, signal);
    const mayBePrivate = allowPrivateNetwork || github.allowPrivateNetwork;
    return { credential: { username: usernames.github, password: minted }, allowPrivateNetwork: mayBePrivate };
  }
  if (token === null) throw denied("This integration has no token. Store one, or use the repository's SSH address.");
  const username = integration.username ?? usernames[integration.host];
  return { credential: { username, password: token }, allowPrivateNetwork };
}

async function mint(github: GithubApp, installationId: number, repoUrl: string, signal: AbortSignal): Promise<string> {
  const repository = /([^/]+?)(?:\.git)?\/?$/.exec(new URL(repoUrl).pathname)?.[1] ?? "";
  try {
    return await github.mintToken(installationId, { repository, permissions: { contents: "read" } }, signal);
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    const mayPass = error.reason === "unreachable" || error.reason === "limited";
    const hint = mayPass ? "" : ` The App may not read ${shownUrl(repoUrl)}: add the repository to its installation.`;
    throw new GitFailure(mayPass ? "Unreachable" : "AccessDenied", `${error.message}${hint}`, { cause: error });
  }
}

/** Returns why a repository cannot be read with an integration. */
export const outsideIntegration = (repoUrl: string, { url }: { url: string }) =>
  `${shownUrl(repoUrl)} is not below ${url}, which this integration is for.`;

const isSsh = (repoUrl: string) => repoUrl.startsWith("ssh://") || !repoUrl.includes("://");

/**
 * Returns whether an address is below another one: same scheme, host and port, and a path that is compared segment by segment as the
 * host decodes it. For ssh the same host is sufficient, because the host is authenticated by its key.
 */
export function isBelow(base: string, repoUrl: string): boolean {
  const address = repoUrl.includes("://") ? repoUrl : repoUrl.replace(/^([^/:@]+@[^/:]+):/, "ssh://$1/");
  if (!URL.canParse(base) || !URL.canParse(address)) return false;
  const [outer, inner] = [new URL(base), new URL(address)];
  const isSameHost = isSsh(repoUrl)
    ? outer.hostname !== "" && outer.hostname.toLowerCase() === inner.hostname.toLowerCase()
    : outer.origin === inner.origin && outer.origin !== "null";
  if (!isSameHost) return false;
  const parts = (url: URL) => url.pathname.toLowerCase().split("/").filter(Boolean);
  const innerParts = parts(inner);
  if (innerParts.some((part) => /%2f|%5c|%2e/.test(part))) return false;
  return parts(outer).every((part, at) => innerParts[at] === part);
}

const denied = (message: string) => new GitFailure("AccessDenied", message);
