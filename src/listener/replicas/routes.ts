import { isDeepStrictEqual } from "node:util";
import type { Route, Traffic } from "../../gateway/route.ts";

/** The routes that this process has set in a gateway. Sets only routes that differ. A deployment removes only its own. */
export class Routes {
  readonly #traffic: Traffic;
  readonly #bySlug = new Map<string, Route>();

  constructor(traffic: Traffic) {
    this.#traffic = traffic;
  }

  /**
   * Replaces the route that a deployment had before. If `before` is null, this instance has just begun to act, and the
   * route is set even if it does not differ: the gateway then reports requests that wait for a sleeping deployment.
   */
  set(before: Route | null, route: Route | null): void {
    if (before !== null && before.slug !== route?.slug) this.#remove(before);
    if (route === null || (before !== null && isSame(this.#bySlug.get(route.slug), route))) return;
    this.#bySlug.set(route.slug, route);
    this.#traffic.setRoute(route);
  }

  /** Removes the routes of all other slugs, because their deployments are gone. */
  keepOnly(slugs: ReadonlySet<string | undefined>): void {
    for (const route of this.#bySlug.values()) if (!slugs.has(route.slug)) this.#remove(route);
  }

  #remove({ slug, deploymentId }: Route): void {
    // Another deployment may have taken over the slug.
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
