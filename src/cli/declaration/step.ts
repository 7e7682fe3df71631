import type { Client } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";

/** What must happen to one deployment. Values of variables are never shown. */
export interface Change {
  name: string;
  action: "create" | "change" | "delete";
  fields: { field: string; from: unknown; to: unknown }[];
  variables: { set: string[]; removed: string[] };
}

/** A change and the calls that make it. `act` returns the deployment, unless it was deleted. */
export interface Step {
  change: Change;
  act(client: Client, signal: AbortSignal): Promise<Deployment | undefined>;
}
