import type { Client } from "../../client/client.ts";
import type { CreateDeployment, Deployment } from "../../contract/deployments/deployment.ts";
import type { Listener } from "../../contract/listeners/listener.ts";
import { hasLabels, labelsText } from "../../domain/listener-labels.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import { nearest } from "../terminal/text.ts";
import type { DeployOptions } from "./deploy-options.ts";

export type Placement = Pick<
  NonNullable<CreateDeployment["source_config"]>,
  "listener_id" | "listener_selector" | "listener_config"
>;

type PlacementOptions = Pick<DeployOptions, "listener" | "namespace" | "type" | "where">;

/**
 * Returns the settings that place a new deployment on the listener of `--listener`, or on one with the labels of `--where`.
 * Without these options there are none.
 * @throws CliFailure for a listener that the workspace does not have
 */
export async function placementOf(
  client: Client,
  { listener, namespace, type, where }: PlacementOptions,
  signal: AbortSignal,
): Promise<Placement> {
  const [option] = [listener !== undefined && "--listener", where !== undefined && "--where"].filter(
    (one) => one !== false,
  );
  if (option === undefined) {
    if (namespace !== undefined) throw usageFailure("--namespace needs --listener or --where.");
    return {};
  }
  if (type !== undefined)
    throw usageFailure(`--type and ${option} exclude each other: in a cluster, resource_spec sets the sizes.`);
  const inNamespace = namespace === undefined ? {} : { listener_config: { k8s_namespace: namespace } };
  if (where === undefined) return { listener_id: await findListenerId(client, listener ?? "", signal), ...inNamespace };
  if (listener !== undefined) throw usageFailure("--listener and --where exclude each other.");
  return { listener_selector: labelsIn(where), ...inNamespace };
}

async function findListenerId(client: Client, listener: string, signal: AbortSignal): Promise<string> {
  const listeners: Listener[] = [];
  for await (const one of client.all("listListeners", {}, { signal })) listeners.push(one);
  const found = listeners.find(({ id, compute_id: name }) => name === listener || id === listener);
  if (found !== undefined) return found.id;
  const names = listeners.map(({ compute_id: name }) => name);
  const known = nearest(listener, names);
  const hint =
    names.length === 0
      ? "This workspace has no listeners."
      : `Listeners: ${(known.length > 0 ? known : names).join(", ")}`;
  throw new CliFailure(`There is no listener "${listener}".`, { hints: [hint] });
}

/** Reads labels. A value may be empty. @throws CliFailure for a text without `=`, such as a source after `--where`. */
function labelsIn(where: readonly string[]): Record<string, string> {
  const labels = where.flatMap((text) => text.split(","));
  const bad = labels.find((label) => label.indexOf("=") < 1);
  if (bad !== undefined)
    throw usageFailure(
      `--where needs KEY=VALUE, not "${bad}".`,
      "The source comes first: pierhead deploy . --where region=eu",
    );
  return Object.fromEntries(
    labels.map((label) => [label.slice(0, label.indexOf("=")), label.slice(label.indexOf("=") + 1)]),
  );
}

/**
 * Checks that an existing deployment runs on the listener and in the namespace of the options, because only its first deploy
 * chooses them.
 * @param labelsOf Returns the labels that a listener has, or gets by the same file.
 * @throws CliFailure for another listener or namespace
 */
export async function checkPlacement(
  client: Client,
  deployment: Deployment,
  options: PlacementOptions & { labelsOf?: (listener: Listener) => Record<string, string> },
  signal: AbortSignal,
) {
  const { listener_id: listenerId, listener_selector: selector } = await placementOf(client, options, signal);
  if (listenerId === undefined && !selector) return;
  const { name, source_config: config } = deployment;
  const { listener, namespace = config.listener_config?.k8s_namespace, labelsOf = ({ labels }) => labels } = options;
  const isThere = async () => {
    if (!selector || config.listener_id === null) return listenerId === config.listener_id;
    return hasLabels(labelsOf(await client.getListener({ listener_id: config.listener_id }, { signal })), selector);
  };
  const isOnIt = await isThere();
  if (isOnIt && namespace === config.listener_config?.k8s_namespace) return;
  const wanted = selector ? `a listener with the labels ${labelsText(selector)}` : `the listener ${listener}`;
  const other = isOnIt ? `in the namespace ${namespace}` : `on ${wanted}`;
  throw new CliFailure(`${name} does not run ${other}.`, {
    because: "Only the first deploy chooses the listener and the namespace.",
    hints: [
      `To deploy where ${name} runs, omit ${selector ? "--where" : "--listener"} and --namespace.`,
      "Choose another name:  --name NAME",
    ],
  });
}
