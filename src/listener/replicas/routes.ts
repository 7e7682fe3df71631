import { isDeepStrictEqual } from "node:util";
import type { Route, Traffic } from "../../gateway/route.ts";

/** The routes of a gateway as this process has set them: each only when it differs, each only by its own deployment. */
export class Routes {
  readonly #traffic: Traffic;
  readonly #bySlug = new Map<string, Route>();

  constructor(traffic: Traffic) {
    this.#traffic = traffic;
  }

  /**
   * Replaces what a deployment had under `before`, its slug until now. Null: whoever asks begins to act, and says what there
   * is even if it does not differ: of requests that called in vain for a sleeping deployment it hears then.
   */
  set(before: Route | null, route: Route | null): void {
    if (before !== null && before.slug !== route?.slug) this.#remove(before);
    if (route === null || (before !== null && isSame(this.#bySlug.get(route.slug), route))) return;
    this.#bySlug.set(route.slug, route);
    this.#traffic.setRoute(route);
  }

  /** Removes every other one: their deployments are gone. */
  keepOnly(slugs: ReadonlySet<string | undefined>): void {
    for (const route of this.#bySlug.values()) if (!slugs.has(route.slug)) this.#remove(route);
  }

  #remove({ slug, deploymentId }: Route): void {
    // A slug that was given to another deployment meanwhile is that one's.
    if (this.#bySlug.get(slug)?.deploymentId !== deploymentId) return;
    this.#bySlug.delete(slug);
    this.#traffic.removeRoute(slug);
  }
}

function isSame(a: Route | undefined, b: Route): boolean {
  if (a === undefined || a.state !== b.state || a.revisionId !== b.revisionId || a.because !== b.because) return false;
  if (!isDeepStrictEqual(a.admission, b.admission)) return false;
  if (a.deploymentId !== b.deploymentId || a.targets.length !== b.targets.length) return false;
  return a.targets.every((target, index) => {
    const other = b.targets[index];
    return target.replicaId === other?.replicaId && target.host === other.host && target.port === other.port;
  });
}
