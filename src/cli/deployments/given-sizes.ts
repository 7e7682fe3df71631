import { ApiFailure } from "../../client/failure.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { ResourceSpec } from "../../contract/deployments/resource-spec.ts";
import type { Session } from "../session.ts";

/**
 * Returns the sizes that a deployment was given. Its response fills in defaults, also those of workers: a copy of it would get workers
 * that the deployment itself does not have.
 */
export async function givenSizes(
  session: Session,
  { id, source_config: config }: Pick<Deployment, "id" | "source_config">,
): Promise<ResourceSpec | null> {
  const client = await session.client();
  try {
    const { desired } = await client.debugDeployment({ deployment_id: id }, { signal: session.signal });
    const { resource_spec: given } = desired as { resource_spec?: ResourceSpec | null };
    // Servers of earlier versions do not report it.
    return given === undefined ? config.resource_spec : given;
  } catch (error) {
    // Readers see the effective sizes only.
    if (!(error instanceof ApiFailure) || error.status !== 403) throw error;
    return config.resource_spec;
  }
}
