import type { Client } from "../../client/client.ts";
import { ApiFailure } from "../../client/failure.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { ResourceSpec } from "../../contract/deployments/resource-spec.ts";

/**
 * Returns the sizes that a deployment was given. Its response fills in defaults, also those of workers: sent back in
 * another deployment, or beside other sizes, they would ask for workers that the deployment does not have.
 */
export async function givenSizes(
  client: Client,
  { id, source_config: config }: Pick<Deployment, "id" | "source_config">,
  signal: AbortSignal,
): Promise<ResourceSpec | null> {
  try {
    const { desired } = await client.debugDeployment({ deployment_id: id }, { signal });
    const { resource_spec: given } = desired as { resource_spec?: ResourceSpec | null };
    // Servers of earlier versions do not report it.
    return given === undefined ? config.resource_spec : given;
  } catch (error) {
    // Readers see the effective sizes only.
    if (!(error instanceof ApiFailure) || error.status !== 403) throw error;
    return config.resource_spec;
  }
}
