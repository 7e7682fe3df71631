import type { GithubApp, HostRepository } from "./github-app.ts";

/** Consoles ask again with every key that is pressed; a repository that was just added may take as long to appear. */
const lifeMs = 60_000;

/** Installations remembered at once: 500 lists of 100 repositories are some 10 MiB. */
const listsMax = 500;

/** Repositories of installations, asked for once a minute however many want to know. */
export class RepositoryCache {
  readonly #lists = new Map<number, { until: number; list: Promise<HostRepository[]> }>();

  /** @throws HostFailure, to all who asked meanwhile; the next one asks the host again. */
  list(github: GithubApp, installationId: number): Promise<HostRepository[]> {
    const known = this.#lists.get(installationId);
    if (known !== undefined && known.until > performance.now()) return known.list;
    // Not the signal of the one who asked first: others wait for the same answer. Each call has its own deadline.
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

/** Clients wait for 30 s. */
const listTimeoutMs = 25_000;
