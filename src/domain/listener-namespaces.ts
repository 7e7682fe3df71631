import { errors } from "../contract/error.ts";
import { listenerNamespacesMax } from "./limits.ts";

const field = "compute_config.k8s_namespaces";

/**
 * Checks namespaces against Kubernetes' rules and removes duplicates.
 * @throws ApiError 400 `invalidField`.
 */
export function checkNamespaces(sent: readonly string[]): string[] {
  if (sent.length === 0) throw errors.invalidField(field, "must name a namespace, or be left out for all of them.");
  if (sent.length > listenerNamespacesMax) {
    throw errors.invalidField(field, `must name at most ${listenerNamespacesMax} namespaces.`);
  }
  const bad = sent.find((name) => !/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(name));
  if (bad !== undefined) {
    const because = `contains ${JSON.stringify(bad.slice(0, 80))}, which is not a valid Kubernetes namespace.`;
    throw errors.invalidField(field, because);
  }
  return [...new Set(sent)];
}

/**
 * Checks that no namespace with running agents is removed, because agents cannot move.
 * @throws ApiError 400 `invalidField`.
 */
export function checkNamespacesKept(wanted: readonly string[], used: readonly string[]): void {
  const lost = used.filter((name) => !wanted.includes(name));
  if (lost.length > 0) throw errors.invalidField(field, `must keep ${lost.join(", ")}: deployments run there.`);
}
