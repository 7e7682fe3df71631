/**
 * Returns one key for all spellings of a repository's address: host and path in lower case, without `.git`. Ports of http
 * count, those of ssh do not, because they do not identify the repository. null: not an address of a repository.
 */
export function repositoryKey(repoUrl: string): string | null {
  const scp = /^[\w.-]+@([\w.-]+):([^/].*)$/.exec(repoUrl);
  if (scp !== null && !repoUrl.includes("://")) return keyOf(scp[1] as string, scp[2] as string);
  if (repoUrl.startsWith("/")) return keyOf("", repoUrl);
  if (!URL.canParse(repoUrl)) return null;
  const url = new URL(repoUrl);
  return keyOf(url.protocol === "ssh:" ? url.hostname : url.host, url.pathname);
}

/** The look-behind keeps the search linear: the sender of a message decides how many slashes there are. */
const keyOf = (host: string, path: string) =>
  `${host}/${path.replace(/^\/+|(?<!\/)\/+$/g, "").replace(/\.git$/, "")}`.toLowerCase();
