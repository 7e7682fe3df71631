/** Paths at which a code host compares two commits. Hosts that are not listed have none that is certain. */
const comparisons: Record<string, (from: string, to: string) => string> = {
  "github.com": (from, to) => `/compare/${from}...${to}`,
  "gitlab.com": (from, to) => `/-/compare/${from}...${to}`,
  "codeberg.org": (from, to) => `/compare/${from}...${to}`,
};

/** Returns the page of the code host that compares two commits of a repository, or null. */
export function comparisonUrl(repository: string | null, from: string | null, to: string | null): string | null {
  if (repository === null || from === null || to === null || from === to) return null;
  if (![from, to].every((sha) => /^[0-9a-f]{40}$/.test(sha)) || !URL.canParse(repository)) return null;
  const { protocol, host, pathname } = new URL(repository);
  const path = Object.hasOwn(comparisons, host) ? comparisons[host]?.(from, to) : undefined;
  if (path === undefined || protocol !== "https:") return null;
  return `https://${host}${pathname.replace(/(?:\.git)?\/?$/, "")}${path}`;
}
