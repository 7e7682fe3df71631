/**
 * One name for a repository, however its address is written: host and path in lower case, without `.git`. Ports of
 * http count, those of ssh do not: they say nothing about the repository. null: it is no address of a repository.
 */
export function repositoryKey(repoUrl: string): string | null {
  const scp = /^[\w.-]+@([\w.-]+):([^/].*)$/.exec(repoUrl);
  if (scp !== null && !repoUrl.includes("://")) return keyOf(scp[1] as string, scp[2] as string);
  if (repoUrl.startsWith("/")) return keyOf("", repoUrl);
  if (!URL.canParse(repoUrl)) return null;
  const url = new URL(repoUrl);
  return keyOf(url.protocol === "ssh:" ? url.hostname : url.host, url.pathname);
}

/** Looked for where slashes begin: whoever sends a host's messages decides how many there are. */
const keyOf = (host: string, path: string) =>
  `${host}/${path.replace(/^\/+|(?<!\/)\/+$/g, "").replace(/\.git$/, "")}`.toLowerCase();
