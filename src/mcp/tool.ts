import { type Static, type TObject, Type } from "typebox";
import type { Client } from "../client/client.ts";
import type { Deployment } from "../contract/deployments/deployment.ts";

export interface ToolContext {
  /** Calls with the key of the caller. */
  client: Client;
  signal: AbortSignal;
  /**
   * Packs and deploys a directory of the machine on which the tools run. Absent: the tools run in the server, which does not see the
   * caller's files.
   */
  deployDirectory?: (directory: string, name: string | undefined) => Promise<Deployment>;
}

export type ToolRole = "reader" | "deployer";

/** Declaration of one tool. */
export interface ToolSpec {
  name: string;
  title: string;
  description: string;
  input: TObject;
  /** `destroys`: it takes something away or replaces it, so a client should ask its user. The gravest also require `confirm`. */
  effect: "reads" | "adds" | "destroys";
  /** Role that the API needs for it. Absent: `reader` for tools that read, otherwise `deployer`. */
  role?: ToolRole;
  run(context: ToolContext, args: unknown): Promise<unknown>;
}

/** Keeps the type of the arguments, which the server checks against `input` before the call. */
export function tool<I extends TObject>(
  spec: Omit<ToolSpec, "input" | "run"> & { input: I; run(context: ToolContext, args: Static<I>): Promise<unknown> },
): ToolSpec {
  return { ...spec, run: (context, args) => spec.run(context, args as Static<I>) };
}

/** A refusal that the model can act on. */
export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
}

export const deploymentField = Type.String({
  minLength: 1,
  maxLength: 256,
  description: "Name or id of the deployment.",
});

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** @throws ToolFailure with similar names */
export async function findDeployment({ client, signal }: ToolContext, nameOrId: string): Promise<Deployment> {
  const found = await findByName({ client, signal }, nameOrId);
  if (found !== undefined) return found;
  if (uuid.test(nameOrId)) return client.getDeployment({ deployment_id: nameOrId }, { signal });
  const { resources } = await client.listDeployments({ limit: 20 }, { signal });
  const names = resources.map(({ name }) => name).join(", ");
  throw new ToolFailure(`There is no deployment "${nameOrId}". Deployments: ${names || "none"}.`);
}

export async function findByName({ client, signal }: ToolContext, name: string): Promise<Deployment | undefined> {
  const { resources } = await client.listDeployments({ name, limit: 1 }, { signal });
  return resources.find((deployment) => deployment.name === name);
}
