import type { CustomAddress, Route } from "./route.ts";

interface Entry extends CustomAddress {
  slug: string;
  workspaceId: string;
}

/** The addresses of deployments that do not contain a slug, by host name. */
export class CustomAddresses {
  readonly #byHost = new Map<string, { all: Entry[]; served: Entry[] }>();

  /** Replaces the address of a deployment. */
  set(before: Route | undefined, after: Route | undefined): void {
    if (before?.custom !== undefined) this.#replace(before.custom.host, before.slug, []);
    if (after?.custom === undefined) return;
    const { slug, custom, workspaceId = after.deploymentId } = after;
    this.#replace(custom.host, slug, [{ ...custom, slug, workspaceId }]);
  }

  /** Returns the deployment that a request addresses, or null. @param host called only if any deployment has such an address */
  find(host: () => string, target: string): Pick<Entry, "slug" | "path"> | null {
    if (this.#byHost.size === 0) return null;
    return this.#byHost.get(host())?.served.find(({ path }) => isBelow(target, path)) ?? null;
  }

  /**
   * A host belongs to the workspace of its oldest deployment: another workspace could otherwise take requests by a longer path. The
   * longest path comes first, because it is the most specific.
   */
  #replace(host: string, slug: string, added: Entry[]): void {
    const others = (this.#byHost.get(host)?.all ?? []).filter((one) => one.slug !== slug);
    const all = [...others, ...added].toSorted((a, b) => a.sinceMs - b.sinceMs);
    const served = all
      .filter(({ workspaceId }) => workspaceId === all[0]?.workspaceId)
      .toSorted((a, b) => b.path.length - a.path.length);
    if (all.length > 0) this.#byHost.set(host, { all, served });
    else this.#byHost.delete(host);
  }
}

const isBelow = (target: string, path: string) =>
  target.startsWith(path) && (target.length === path.length || "/?".includes(target.charAt(path.length)));
