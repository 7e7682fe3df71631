import type { Client } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Change } from "./change.ts";

/** A change and the calls that make it. `act` returns the deployment, unless it was deleted. */
export interface Step {
  change: Change;
  act(client: Client, signal: AbortSignal): Promise<Deployment | undefined>;
}
