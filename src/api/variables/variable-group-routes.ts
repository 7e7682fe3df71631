import type { Principal } from "../../auth/principal.ts";
import { operations } from "../../contract/operations.ts";
import type { VariableGroup } from "../../contract/variables/variable-group.ts";
import { sameCodeSettings, unchangedSettings } from "../../domain/run-again.ts";
import type { CurrentDeployment } from "../../domain/settings.ts";
import { readRevisionVariables } from "../../store/variables/revision-variables.ts";
import {
  changeVariableGroup,
  createVariableGroup,
  deleteVariableGroup,
  findVariableGroup,
  type GroupRow,
  listGroupsOfDeployment,
  listVariableGroups,
  openListedGroup,
  readVariableGroup,
  setGroupsOfDeployment,
} from "../../store/variables/variable-groups.ts";
import { changeSettings, type Decided, type Locked } from "../deployments/change-deployment.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { deploymentOf } from "../deployments/present-deployment.ts";
import type { ApiDeps } from "../deps.ts";
import { type Api, route } from "../http/route.ts";
import { deploymentsUrlOf } from "../http/urls.ts";
import { earlierOf } from "../revisions/decide-rollback.ts";
import { findRevisionOf, findRunning } from "../revisions/run-again-routes.ts";
import { withoutNulls } from "../validation/without-nulls.ts";

/** Adds the routes of variable groups, and of the groups of a deployment. */
export function addVariableGroupRoutes(api: Api): void {
  const { db, sealer, settings } = api.deps;

  route(api, operations.listVariableGroups, async (call) => {
    const { tenantId } = call.principal;
    return api.largePages.present(call, {
      read: (range) => listVariableGroups(db, tenantId, range),
      largeBytesOf: (row) => row.large_bytes,
      small: (row) => groupOf(openListedGroup(sealer, row)),
      large: async ({ id }) => {
        const found = await findVariableGroup(db, sealer, tenantId, id);
        return found && groupOf(found);
      },
    });
  });

  route(api, operations.createVariableGroup, async ({ principal, body }) => {
    const { name, variables } = body;
    return groupOf(await createVariableGroup(db, sealer, principal, { name, variables: variables ?? [] }));
  });

  route(api, operations.getVariableGroup, async (call) => {
    const { tenantId } = call.principal;
    const read = () => readVariableGroup(db, sealer, tenantId, call.params.variable_group_id);
    const bytesOf = ({ variables }: GroupRow) =>
      Object.values(variables).reduce((sum, { value }) => sum + value.length, 0);
    return groupOf(await api.largePages.one(call, read, bytesOf));
  });

  route(api, operations.patchVariableGroup, async ({ principal, params, body }) =>
    groupOf(await changeVariableGroup(db, sealer, principal, params.variable_group_id, withoutNulls(body))),
  );

  route(api, operations.deleteVariableGroup, ({ principal, params }) =>
    deleteVariableGroup(db, sealer, principal, params.variable_group_id),
  );

  route(api, operations.getDeploymentVariableGroups, async ({ principal, params }) => {
    const { id } = await readDeployment(db, principal, params.deployment_id);
    return { groups: (await listGroupsOfDeployment(db, sealer, id)).map(groupOf) };
  });

  route(api, operations.putDeploymentVariableGroups, async ({ principal, params, body, request }) => {
    const deploymentsUrl = deploymentsUrlOf(request.raw, settings);
    const { row } = await changeSettings(api.deps, {
      principal,
      deploymentId: params.deployment_id,
      deploymentsUrl,
      action: "deployment.variables",
      reason: "variables",
      ifMatch: request,
      decide: (current, _context, locked) =>
        decideGroups(api.deps, principal, current, locked, body.variable_group_ids),
    });
    return deploymentOf(row, { sealer, principal, deploymentsUrl });
  });
}

/**
 * Sets the groups of a deployment. Creates a revision with the current code unless the newest one already has their
 * variables.
 */
async function decideGroups(
  { sealer }: ApiDeps,
  principal: Principal,
  current: CurrentDeployment,
  { trx, row }: Locked,
  groupIds: readonly string[],
): Promise<Decided> {
  const unchanged = unchangedSettings(current);
  await setGroupsOfDeployment(trx, principal, row, groupIds);
  const again = await findRunning(trx, row);
  // Nothing to run yet: the first deploy gets the variables.
  if (again === undefined) return { changed: { ...unchanged, revision: null } };
  const latest = (await findRevisionOf(trx, row, row.latest_revision_id)) ?? again;
  const pinned = (await readRevisionVariables(trx, latest)).groups ?? [];
  const groups = await listGroupsOfDeployment(trx, sealer, row.id);
  const isCurrent = textOf(pinned) === textOf(groups);
  if (isCurrent) return { changed: { ...unchanged, revision: null } };
  return { changed: sameCodeSettings(earlierOf(again), current, null), again };
}

const textOf = (groups: readonly { id: string; version: number }[]) =>
  groups.map(({ id, version }) => `${id}@${version}`).join();

/** Returns the wire shape of a group, without the values of secrets. */
function groupOf({ tenant_id: _, variables, created_at, updated_at, ...row }: GroupRow): VariableGroup {
  return {
    ...row,
    variables: Object.entries(variables).map(([name, { value, is_secret }]) => ({
      name,
      value: is_secret ? null : value,
      is_secret,
    })),
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  };
}
