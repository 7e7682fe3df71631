import type { CustomAddress } from "./route.ts";

interface Found {
  slug: string;
  path: string;
}

/** The addresses of deployments that do not contain a slug, by host name. */
export class CustomAddresses {
  /** The longest path first, because it is the most specific. Of equal paths, that of the oldest deployment first. */
  readonly #byHost = new Map<string, (CustomAddress & Found)[]>();

  /** Replaces the address of a deployment. */
  set(slug: string, before: CustomAddress | undefined, after: CustomAddress | undefined): void {
    if (before !== undefined) this.#replace(before.host, slug, []);
    if (after !== undefined) this.#replace(after.host, slug, [{ ...after, slug }]);
  }

  /** Returns the deployment that a request addresses, or null. @param host called only if any deployment has such an address */
  find(host: () => string, target: string): Found | null {
    if (this.#byHost.size === 0) return null;
    return this.#byHost.get(host())?.find(({ path }) => isBelow(target, path)) ?? null;
  }

  #replace(host: string, slug: string, added: (CustomAddress & Found)[]): void {
    const others = (this.#byHost.get(host) ?? []).filter((one) => one.slug !== slug);
    const all = [...others, ...added].toSorted((a, b) => b.path.length - a.path.length || a.sinceMs - b.sinceMs);
    if (all.length > 0) this.#byHost.set(host, all);
    else this.#byHost.delete(host);
  }
}

const isBelow = (target: string, path: string) =>
  target.startsWith(path) && (target.length === path.length || "/?".includes(target.charAt(path.length)));
