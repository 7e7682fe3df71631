import type { IncomingMessage } from "node:http";
import type { CustomAddresses } from "./custom-addresses.ts";

/** The deployment that a request addresses, and the path for its agent server. */
export interface Address {
  slug: string;
  /** Origin form with the query, without the prefix of path routing and without a fragment. */
  path: string;
  /** `/d/<slug>` when routed by path, empty when routed by host name. */
  prefix: string;
  /** Host and port that the client used. */
  authority: string;
}

/** The names under which deployments are served. */
export interface Site {
  /** Deployments answer at `<slug>.<rootDomain>`. */
  rootDomain: string;
  /** Deployments answer at `<pathPrefix><slug>/...`; starts and ends with a slash. */
  pathPrefix: string;
  /** Host name of Pierhead itself. It is never a deployment, although it may lie under the root domain. */
  ownHost: string | null;
  /** Addresses that do not contain a slug. */
  custom: Pick<CustomAddresses, "find">;
}

/**
 * Returns the address of a request, or null if it is not for a deployment. The host name wins over the path, because a
 * deployment with its own host name may use any path. In absolute form the target's authority counts and `Host` is
 * ignored (RFC 9112 3.2.2).
 */
export function findAddress(request: IncomingMessage, site: Site): Address | null {
  const { authority, target } = splitTarget(request);
  const label = deploymentLabel(authority, site);
  if (label !== null) return { slug: label, path: target, prefix: "", authority };
  const isBelowPrefix = target.startsWith(site.pathPrefix);
  // No deployment may take the addresses of the others.
  const isShared = isBelowPrefix && hostOf(authority) === site.ownHost;
  const own = isShared ? null : site.custom.find(() => hostOf(authority), target);
  if (own !== null) return { ...addressBelow(target, own.path.length), slug: own.slug, authority };
  if (!isBelowPrefix) return null;
  const start = site.pathPrefix.length;
  const length = target.slice(start).search(/[/?]/);
  const end = length === -1 ? target.length : start + length;
  return { ...addressBelow(target, end), slug: target.slice(start, end), authority };
}

function addressBelow(target: string, end: number): Pick<Address, "path" | "prefix"> {
  const rest = target.slice(end);
  return { path: rest.startsWith("/") ? rest : `/${rest}`, prefix: target.slice(0, end) };
}

export function splitTarget(request: IncomingMessage): { authority: string; target: string } {
  // Proper clients never send a fragment, and servers disagree on its meaning.
  const target = (request.url ?? "/").split("#", 1)[0] ?? "/";
  if (target.startsWith("/")) return { authority: request.headers.host ?? "", target };
  const absolute = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?@]*@)?([^/?]*)(.*)$/i.exec(target);
  if (absolute === null) return { authority: "", target: "" };
  const [, authority = "", rest = ""] = absolute;
  return { authority, target: rest.startsWith("/") ? rest : `/${rest}` };
}

const hostOf = (authority: string) => authority.toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");

/** Returns the one label before the root domain: `support.localhost:8124` -> `support`. */
function deploymentLabel(authority: string, { rootDomain, ownHost }: Site): string | null {
  const lower = authority.toLowerCase();
  if (!lower.includes(rootDomain)) return null;
  const host = hostOf(lower);
  if (host === ownHost || !host.endsWith(`.${rootDomain}`)) return null;
  const label = host.slice(0, -rootDomain.length - 1);
  return label === "" || label.includes(".") ? null : label;
}
