import type { Principal } from "../../auth/principal.ts";
import type { ListDeploymentsQuery } from "../../contract/deployments/deployment.ts";
import { type HealthCounts, healthWords } from "../../contract/deployments/health.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { canonicalAgentId } from "../../domain/names.ts";
import { applyPatch } from "../../domain/patch.ts";
import { reasonOfChange } from "../../domain/revision-reason.ts";
import {
  countFreeDeployments,
  countHealth,
  type DeploymentFilter,
  listDeployments,
} from "../../store/deployments/deployment-list.ts";
import { type DeploymentRow, findDeployment, type ListedDeploymentRow } from "../../store/deployments/deployments.ts";
import type { Db } from "../../store/engine/database.ts";
import { type Api, type Handler, route } from "../http/route.ts";
import { deploymentsUrlOf } from "../http/urls.ts";
import { readUuid } from "../validation/uuid-text.ts";
import { changeSettings } from "./change-deployment.ts";
import { changeWithRepositoryCheck } from "./check-repository.ts";
import { createFromRequest } from "./create-deployment.ts";
import { deploymentOf } from "./present-deployment.ts";

/** Adds the deployment routes: D1, D2, D4 to D6 (contract 3.2). */
export function addDeploymentRoutes(api: Api): void {
  const { db, sealer, settings } = api.deps;

  route(api, operations.listDeployments, async (call) => {
    const { principal, query, request } = call;
    const deploymentsUrl = deploymentsUrlOf(request.raw, settings);
    const order = { by: query.sort_by, direction: query.sort_order };
    const filter = filterOf(query, deploymentsUrl);
    const shown = (row: DeploymentRow) => deploymentOf(row, { sealer, principal, deploymentsUrl });
    return api.largePages.present(call, {
      read: (range) => listDeployments(db, principal.tenantId, filter, { ...range, order }),
      largeBytesOf: (row: ListedDeploymentRow) => row.large_bytes,
      small: shown,
      large: async ({ id }) => {
        const found = await findDeployment(db, principal.tenantId, id);
        return found && shown(found);
      },
    });
  });

  const create: Handler<typeof operations.createDeployment, Principal> = async ({
    principal,
    body,
    request,
    responseRow,
  }) => {
    const viewer = { sealer, principal, deploymentsUrl: deploymentsUrlOf(request.raw, settings) };
    const shown = (row: DeploymentRow) => deploymentOf(row, viewer);
    return shown(await createFromRequest(api.deps, { principal, body, responseRow: (row) => responseRow(shown(row)) }));
  };
  route(api, operations.createDeployment, create, { savesResponse: true });

  route(api, operations.countHealth, async ({ principal }) => {
    const found = new Map((await countHealth(db, principal.tenantId)).map(({ health, count }) => [health, count]));
    const entries = healthWords.map((word) => [word, found.get(word) ?? 0]);
    return { counts: Object.fromEntries(entries) as HealthCounts["counts"] };
  });

  route(api, operations.countFreeDeployments, async ({ principal }) => {
    return { count: await countFreeDeployments(db, principal.organizationId) };
  });

  route(api, operations.getDeployment, async (call) => {
    const { principal, params, request } = call;
    const read = () => readDeployment(db, principal, params.deployment_id);
    const row = await api.largePages.one(call, read, ({ sealed_secrets: sealed }) => sealed?.length ?? 0);
    return deploymentOf(row, { sealer, principal, deploymentsUrl: deploymentsUrlOf(request.raw, settings) });
  });

  const patch: Handler<typeof operations.patchDeployment, Principal> = (call) => {
    const { principal, params, body, request } = call;
    const deploymentsUrl = deploymentsUrlOf(request.raw, settings);
    return changeWithRepositoryCheck(api.deps, call, async (check) => {
      const { row } = await changeSettings(api.deps, {
        principal,
        deploymentId: params.deployment_id,
        deploymentsUrl,
        tarballPath: body.source_revision_config?.source_tarball_path,
        action: "deployment.patch",
        reason: reasonOfChange(body),
        plain: body,
        ifMatch: request,
        decide: (current, context) => ({ changed: check(current, applyPatch(current, body, context)) }),
      });
      return deploymentOf(row, { sealer, principal, deploymentsUrl });
    });
  };
  route(api, operations.patchDeployment, patch, { savesResponse: true });
}

/**
 * Returns a deployment of the caller's workspace. @throws ApiError 404 with the same text for unknown and foreign ids.
 */
export async function readDeployment(db: Db, principal: Principal, id: string): Promise<DeploymentRow> {
  const row = await findDeployment(db, principal.tenantId, id);
  if (row === undefined) throw errors.deploymentNotFound(id);
  return row;
}

/** An empty text is no filter, because clients send `name_contains=`. */
function filterOf(query: ListDeploymentsQuery, deploymentsUrl: string): DeploymentFilter {
  return {
    name: query.name || undefined,
    nameContains: query.name_contains || undefined,
    textContains: query.text_contains || undefined,
    status: query.status || undefined,
    health: query.health,
    isRemote: query.remote_reconciled,
    listenerId: query.listener_id,
    imageVersion: query.image_version || undefined,
    deploymentType: query.deployment_type,
    ids: query.deployment_ids ? idsOf("deployment_ids", query.deployment_ids) : undefined,
    tagValueIds: query.tag_value_ids ? idsOf("tag_value_ids", query.tag_value_ids) : undefined,
    address: query.url ? { customUrl: query.url, slug: slugIn(query.url, deploymentsUrl) } : undefined,
    agentId: query.agent_id === undefined ? undefined : canonicalAgentId(query.agent_id),
    agentEnvironment: query.agent_environment,
  };
}

function idsOf(parameter: string, list: string): string[] {
  return list.split(",").map((text) => {
    const read = readUuid(text.trim());
    if ("uuid" in read) return read.uuid;
    const { error } = read;
    throw errors.invalidRequest([
      {
        type: "uuid_parsing",
        loc: ["query", parameter],
        msg: `Input should be a valid UUID, ${error}`,
        input: text.trim(),
        ctx: { error },
      },
    ]);
  });
}

function slugIn(url: string, deploymentsUrl: string): string | null {
  return url.startsWith(deploymentsUrl) ? url.slice(deploymentsUrl.length) : null;
}
