import { firstNames } from "../base/first-names.ts";
import type {
  ListenerConfig,
  SourceConfig,
  SourceConfigInput,
  SourceKind,
} from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import { checkLabels, hasLabels, type Labels, labelsText, takesNamespace } from "./listener-labels.ts";
import type { RuleContext } from "./settings.ts";
import { sourceConfigRules } from "./source-rules.ts";

/** A listener of the workspace, as a selector sees it. */
export interface ListenerCandidate {
  id: string;
  computeId: string;
  labels: Labels;
  /** null: every namespace of the cluster. */
  k8sNamespaces: readonly string[] | null;
  buildsImages: boolean;
  /** It has a session and is not draining. */
  isConnected: boolean;
  /** Number of deployments that it runs. */
  deployments: number;
}

/**
 * Chooses a listener with all labels of the selector: a connected one before others, then the one with the fewest
 * deployments, then the oldest.
 *
 * @param candidates all listeners of the workspace, oldest first.
 * @returns the listener's id.
 * @throws ApiError 400 `noListenerMatches`, `fieldNotApplicable` or `invalidField`.
 */
export function chooseListener(
  source: SourceKind,
  config: Pick<SourceConfigInput, "listener_id" | "listener_config"> & { selector: Record<string, string> },
  candidates: readonly ListenerCandidate[],
): string {
  const selector = checkLabels(selectorField, config.selector);
  if (sourceConfigRules.listener_id[source] === "none") throw errors.fieldNotApplicable(selectorField, source);
  if (config.listener_id) throw errors.invalidField(selectorField, "must not be combined with listener_id.");
  const matching = candidates.filter(({ labels }) => hasLabels(labels, selector));
  const because = (text: string) => errors.noListenerMatches(labelsText(selector) || "any labels", text);
  if (matching.length === 0) throw because(knownLabels(candidates));
  const namesOf = (all: readonly string[]) => firstNames(all, namedMax);
  const names = namesOf(matching.map(({ computeId }) => computeId));
  const able = source === "external_docker" ? matching : matching.filter(({ buildsImages }) => buildsImages);
  if (able.length === 0) throw because(`The listeners with these labels (${names}) build no images.`);
  const namespace = config.listener_config?.k8s_namespace ?? null;
  const fitting = able.filter(({ k8sNamespaces: offered }) => takesNamespace(offered, namespace));
  if (fitting.length === 0) {
    const offered = namesOf([...new Set(able.flatMap(({ k8sNamespaces }) => k8sNamespaces ?? []))]);
    if (namespace === null) throw errors.invalidField(namespaceField, `is required: the listeners have ${offered}.`);
    throw because(`The listeners with these labels (${names}) have other namespaces: ${offered}.`);
  }
  const [best] = fitting.toSorted(
    (a, b) => Number(b.isConnected) - Number(a.isConnected) || a.deployments - b.deployments,
  );
  return (best as ListenerCandidate).id;
}

function knownLabels(candidates: readonly ListenerCandidate[]): string {
  if (candidates.length === 0) return "The workspace has no listeners.";
  const labels = candidates.flatMap((one) => Object.entries(one.labels).map(([key, value]) => `${key}=${value}`));
  if (labels.length === 0) return "Its listeners have no labels.";
  return `Listeners of the workspace have these labels: ${firstNames([...new Set(labels)].toSorted(), namedMax)}.`;
}

/** Names at most this many, because a workspace may have hundreds of listeners. */
const namedMax = 50;

const selectorField = "source_config.listener_selector";

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
