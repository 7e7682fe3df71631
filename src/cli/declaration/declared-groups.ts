import { isDeepStrictEqual } from "node:util";
import type { Client } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { VariableGroup } from "../../contract/variables/variable-group.ts";
import type { Session } from "../session.ts";
import { everyPage } from "../terminal/choose.ts";
import { wrong } from "./read-object.ts";
import type { Step } from "./step.ts";

/** The part of a declared deployment that names its groups. */
interface Grouped {
  variable_groups?: string[];
}

/** Checks the `variable_groups` of a deployment. @throws CliFailure that names the field. */
export function checkGroups(at: string, value: unknown): void {
  if (value === undefined) return;
  if (value === null)
    throw wrong(`${at} is empty. Write [] to use none, or remove the key to leave the groups as they are.`);
  if (!Array.isArray(value) || value.some((one) => typeof one !== "string"))
    throw wrong(`${at} must be a list of names.`);
  if (new Set(value).size < value.length) throw wrong(`${at} names a group twice.`);
}

/** Returns the groups of the workspace. Reads none if no deployment of the file names a group. */
export async function groupsFor(session: Session, declared: Record<string, Grouped>): Promise<VariableGroup[]> {
  if (!Object.values(declared).some(({ variable_groups: names = [] }) => names.length > 0)) return [];
  const client = await session.client();
  return everyPage((page) => client.listVariableGroups(page, { signal: session.signal }));
}

/** Returns the ids of the groups that a deployment declares. @throws CliFailure for a name without a group. */
export function groupIdsOf(name: string, wanted: Grouped, groups: readonly VariableGroup[]): string[] | undefined {
  return wanted.variable_groups?.map((group) => {
    const found = groups.find((one) => one.name === group);
    if (found === undefined)
      throw wrong(
        `${name} names the variable group ${group}, but there is none.`,
        `Create it: pierhead groups set ${group} VARIABLE`,
      );
    return found.id;
  });
}

/**
 * Adds the groups to the step of a deployment, unless it already uses exactly these. The step sets the groups first, so that the newest
 * revision has all changes.
 */
export async function withGroups(
  client: Client,
  { current, step, wanted, ids }: { current: Deployment; step: Step | undefined; wanted: Grouped; ids: string[] },
  signal: AbortSignal,
): Promise<Step | undefined> {
  const from = await groupNamesOf(client, current, signal);
  const to = wanted.variable_groups ?? [];
  if (isDeepStrictEqual(from, to)) return step;
  const { name, id } = current;
  const change = step?.change ?? { name, action: "change", fields: [], variables: { set: [], removed: [] } };
  return {
    change: { ...change, fields: [...change.fields, { field: "variable_groups", from, to }] },
    async act(calls, ending) {
      const body = { variable_group_ids: ids };
      const grouped = await calls.putDeploymentVariableGroups({ deployment_id: id, body }, { signal: ending });
      return step === undefined ? grouped : step.act(calls, ending);
    },
  };
}

/** Returns the names of the groups that a deployment uses, in their order. */
export async function groupNamesOf(client: Client, { id }: Deployment, signal: AbortSignal): Promise<string[]> {
  const { groups } = await client.getDeploymentVariableGroups({ deployment_id: id }, { signal });
  return groups.map(({ name }) => name);
}
