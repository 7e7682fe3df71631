import type { Deployment } from "../../contract/deployments/deployment.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";

/**
 * Checks that the caller sees the values of a deployment's variables, because readers get empty ones instead.
 * @throws CliFailure
 */
export async function checkReadable(
  session: Session,
  { name, tenant_id, secrets }: Deployment,
  purpose: "compared" | "copied" = "compared",
): Promise<void> {
  if (secrets.length === 0 || secrets.some(({ value }) => value !== "")) return;
  const client = await session.client();
  const caller = await client.getSession({}, { signal: session.signal });
  const { role } = caller.workspaces.find(({ id }) => id === tenant_id) ?? caller;
  if (role !== "reader") return;
  throw new CliFailure(`A reader cannot see the values of variables, so those of ${name} cannot be ${purpose}.`, {
    exitCode: exitCodes.auth,
    hints: ["Use a key of the role deployer."],
  });
}
