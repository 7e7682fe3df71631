import type { GithubApp, HostRepository } from "./github-app.ts";

/** Lifetime of a list. The console sends a request per keystroke, and a new repository appears after at most this time. */
const lifeMs = 60_000;

/** Maximum number of cached installations. 500 lists of 100 repositories take about 10 MiB. */
const listsMax = 500;

/** Cache of the repositories of installations, which requests each list at most once per minute. */
export class RepositoryCache {
  readonly #lists = new Map<number, { until: number; list: Promise<HostRepository[]> }>();

  /** Returns the repositories. @throws HostFailure to all waiting callers. The next call asks the host again. */
  list(github: GithubApp, installationId: number): Promise<HostRepository[]> {
    const known = this.#lists.get(installationId);
    if (known !== undefined && known.until > performance.now()) return known.list;
    // Not the signal of the first caller, because others wait for the same response. Each call has its own deadline.
    const list = github.listRepositories(installationId, AbortSignal.timeout(listTimeoutMs));
    this.#lists.delete(installationId);
    this.#lists.set(installationId, { until: performance.now() + lifeMs, list });
    for (const oldest of this.#lists.keys()) {
      if (this.#lists.size <= listsMax) break;
      this.#lists.delete(oldest);
    }
    list.catch(() => this.#lists.delete(installationId));
    return list;
  }
}

/** Time limit, shorter than the 30 s that clients wait. */
const listTimeoutMs = 25_000;
