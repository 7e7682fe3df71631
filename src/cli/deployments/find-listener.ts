import type { Client } from "../../client/client.ts";
import type { CreateDeployment, Deployment } from "../../contract/deployments/deployment.ts";
import type { Listener } from "../../contract/listeners/listener.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import { nearest } from "../terminal/text.ts";
import type { DeployOptions } from "./deploy-options.ts";

export type Placement = Pick<NonNullable<CreateDeployment["source_config"]>, "listener_id" | "listener_config">;

type PlacementOptions = Pick<DeployOptions, "listener" | "namespace" | "type">;

/**
 * Returns the settings that place a new deployment on the listener of `--listener`. Without that option there are none.
 * @throws CliFailure for a listener that the workspace does not have
 */
export async function placementOf(
  client: Client,
  { listener, namespace, type }: PlacementOptions,
  signal: AbortSignal,
): Promise<Placement> {
  if (listener === undefined) {
    if (namespace !== undefined) throw usageFailure("--namespace needs --listener.");
    return {};
  }
  if (type !== undefined)
    throw usageFailure("--type and --listener exclude each other: in a cluster, resource_spec sets the sizes.");
  const listeners: Listener[] = [];
  for await (const one of client.all("listListeners", {}, { signal })) listeners.push(one);
  const found = listeners.find(({ id, compute_id: name }) => name === listener || id === listener);
  if (found === undefined) {
    const names = listeners.map(({ compute_id: name }) => name);
    const known = nearest(listener, names);
    const hint =
      names.length === 0
        ? "This workspace has no listeners."
        : `Listeners: ${(known.length > 0 ? known : names).join(", ")}`;
    throw new CliFailure(`There is no listener "${listener}".`, { hints: [hint] });
  }
  return {
    listener_id: found.id,
    ...(namespace !== undefined && { listener_config: { k8s_namespace: namespace } }),
  };
}

/**
 * Checks that an existing deployment runs on the listener and in the namespace of the options, because only its first deploy
 * chooses them.
 * @throws CliFailure for another listener or namespace
 */
export async function checkPlacement(
  client: Client,
  deployment: Deployment,
  options: PlacementOptions,
  signal: AbortSignal,
) {
  const { listener_id: listenerId } = await placementOf(client, options, signal);
  if (listenerId === undefined) return;
  const { name, source_config: config } = deployment;
  const { listener, namespace = config.listener_config?.k8s_namespace } = options;
  const isThere = listenerId === config.listener_id;
  if (isThere && namespace === config.listener_config?.k8s_namespace) return;
  const other = isThere ? `in the namespace ${namespace}` : `on the listener ${listener}`;
  throw new CliFailure(`${name} does not run ${other}.`, {
    because: "Only the first deploy chooses the listener and the namespace.",
    hints: [`To deploy where ${name} runs, omit --listener and --namespace.`, "Choose another name:  --name NAME"],
  });
}
