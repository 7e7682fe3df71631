import { errors } from "../contract/error.ts";

/** What a listener says about where it runs. */
export interface ListenerPlace {
  /** null: every namespace of the cluster. */
  k8sNamespaces: readonly string[] | null;
}

const field = "compute_config.k8s_namespaces";

/**
 * Namespaces as Kubernetes can have them, each once.
 * @throws ApiError 400 `invalidField`.
 */
export function checkNamespaces(sent: readonly string[]): string[] {
  if (sent.length === 0) throw errors.invalidField(field, "must name a namespace, or be left out for all of them.");
  const bad = sent.find((name) => !/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(name));
  if (bad !== undefined) {
    const because = `contains ${JSON.stringify(bad.slice(0, 80))}, which no Kubernetes namespace can be called.`;
    throw errors.invalidField(field, because);
  }
  return [...new Set(sent)];
}

/**
 * A namespace in which agents run stays: they cannot move.
 * @throws ApiError 400 `invalidField`.
 */
export function checkNamespacesKept(wanted: readonly string[], used: readonly string[]): void {
  const lost = used.filter((name) => !wanted.includes(name));
  if (lost.length > 0) throw errors.invalidField(field, `must keep ${lost.join(", ")}: deployments run there.`);
}
