import { callHost, type HostApi } from "./host-call.ts";
import { HostFailure } from "./host-failure.ts";

/** Returns `owner/name` of a repository address. */
export function repositoryPath(repoUrl: string): string {
  const parts = new URL(repoUrl).pathname
    .replace(/\.git\/?$/, "")
    .split("/")
    .filter(Boolean);
  return parts.map(encodeURIComponent).join("/");
}

const pageSize = 100;
/** 500 open pull requests, which is enough for at most 100 previews of the oldest ones. */
const pagesMax = 5;

interface GithubPull {
  number?: unknown;
  head?: { ref?: unknown; sha?: unknown; repo?: { full_name?: unknown } | null };
  base?: { repo?: { full_name?: unknown } | null };
  labels?: { name?: unknown }[];
}

/** Returns the open pull requests into a branch, oldest first. @throws HostFailure */
export async function listOpenPulls(api: HostApi, repository: string, branch: string, signal: AbortSignal) {
  const pulls = [];
  for (let page = 1; page <= pagesMax; page += 1) {
    const query = new URLSearchParams({ state: "open", base: branch, sort: "created", direction: "asc" });
    const path = `/repos/${repository}/pulls?${query}&per_page=${pageSize}&page=${page}`;
    const { body } = await callHost(api, { path, signal });
    if (!Array.isArray(body)) throw new HostFailure("unreachable", "The host listed no pull requests.");
    pulls.push(...body.flatMap((one) => pullOf(one as GithubPull)));
    if (body.length < pageSize) break;
  }
  return pulls;
}

function pullOf({ number, head, base, labels = [] }: GithubPull) {
  const { ref, sha } = head ?? {};
  if (!Number.isSafeInteger(number) || typeof ref !== "string" || !/^[0-9a-f]{40}$/.test(String(sha))) return [];
  const [from, into] = [head?.repo?.full_name, base?.repo?.full_name];
  const isOwn = typeof from === "string" && from === into;
  return [
    {
      number: number as number,
      headRef: ref,
      headSha: String(sha),
      isOwn,
      labels: labels.map((label) => String(label.name)),
    },
  ];
}

/**
 * Creates a comment, or updates the existing one.
 * @returns The id of the comment, or null if a user has deleted it. A deleted comment is not created again.
 * @throws HostFailure
 */
export async function putComment(
  api: HostApi,
  { repository, number, id }: { repository: string; number: number; id: number | null },
  text: string,
  signal: AbortSignal,
): Promise<number | null> {
  const path =
    id === null ? `/repos/${repository}/issues/${number}/comments` : `/repos/${repository}/issues/comments/${id}`;
  const method = id === null ? "POST" : "PATCH";
  const { status, body } = await callHost(api, {
    method,
    path,
    body: { body: text },
    expected: id === null ? [] : [404],
    signal,
  });
  const made = (body as { id?: unknown } | null)?.id;
  return status === 404 || typeof made !== "number" ? null : made;
}
