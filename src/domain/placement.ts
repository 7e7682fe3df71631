import type { ListenerConfig, SourceConfig, SourceKind } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import type { RuleContext } from "./settings.ts";

/**
 * Chooses where a deployment runs: a listener of the workspace and one of its namespaces, or the built-in data plane if
 * there is one and no listener is named (contract 4.1). Only a listener that builds images takes sources to build.
 *
 * @returns the listener settings with the namespace filled in.
 * @throws ApiError 400 `listenerRequired`, `listenerBuildsNothing`, `fieldRequired` or `invalidField`.
 */
export function placeDeployment(
  source: SourceKind,
  config: Pick<SourceConfig, "listener_id" | "listener_config">,
  context: RuleContext,
): ListenerConfig | null {
  const namespace = config.listener_config?.k8s_namespace ?? null;
  if (config.listener_id === null) {
    const ids = context.listeners.map(({ id }) => id);
    if (source === "external_docker" && !context.hasBuiltinDataPlane && ids.length > 0)
      throw errors.listenerRequired(ids);
    if (namespace !== null) throw errors.invalidField(namespaceField, "needs a listener_id.");
    return config.listener_config;
  }
  const listener = context.listeners.find(({ id }) => id === config.listener_id);
  if (listener === undefined) {
    throw errors.invalidField(
      "source_config.listener_id",
      `${config.listener_id} is not a listener of this workspace.`,
    );
  }
  if (source !== "external_docker" && !listener.buildsImages) throw errors.listenerBuildsNothing(listener.id);
  return { k8s_namespace: chooseNamespace(namespace, listener.k8sNamespaces) };
}

const namespaceField = "source_config.listener_config.k8s_namespace";

function chooseNamespace(wanted: string | null, offered: readonly string[] | null): string | null {
  if (offered === null) return wanted;
  if (wanted === null && offered.length > 1) {
    throw errors.invalidField(namespaceField, `is required: the listener has ${offered.join(", ")}.`);
  }
  if (wanted !== null && !offered.includes(wanted)) {
    throw errors.invalidField(namespaceField, `must be one of ${offered.join(", ")}.`);
  }
  return wanted ?? offered[0] ?? null;
}
