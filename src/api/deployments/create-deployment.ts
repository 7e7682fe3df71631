import { randomUUID } from "node:crypto";
import type { Principal } from "../../auth/principal.ts";
import { listTemplates } from "../../builds/sources/templates.ts";
import type { CreateDeployment } from "../../contract/deployments/deployment.ts";
import { normalizeCreate } from "../../domain/create.ts";
import { slugOf } from "../../domain/names.ts";
import { chooseListener } from "../../domain/placement.ts";
import type { RuleContext } from "../../domain/settings.ts";
import { readAgentsUrl, readListenerCapabilities } from "../../store/data-plane/listener-sessions.ts";
import { listListenerCandidates, listListenerNamespaces } from "../../store/data-plane/workspace-listeners.ts";
import { createDeployment } from "../../store/deployments/create-deployment.ts";
import { newRevision } from "../../store/deployments/deployment-settings.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import { sealSecrets } from "../../store/secrets/secrets.ts";
import type { SealedResponse } from "../../store/tenants/idempotency-keys.ts";
import { firstVariables, useGroups } from "../../store/variables/revision-variables.ts";
import type { ApiDeps } from "../deps.ts";
import { checkIntegration } from "../integrations/call-code-host.ts";
import { refuseTakenProject } from "./langsmith-projects.ts";
import { ruleContext } from "./rule-context.ts";

/**
 * Creates a deployment with its first revision.
 * @param request.responseRow Returns the row that saves the response for retries.
 * @returns the row as it was written.
 * @throws ApiError 400 for a broken rule; 409 when the name, agent environment or tracing project is taken.
 */
export async function createFromRequest(
  deps: ApiDeps,
  request: { principal: Principal; body: CreateDeployment; responseRow: (row: DeploymentRow) => SealedResponse | null },
): Promise<DeploymentRow> {
  const { principal } = request;
  const body = await withChosenListener(deps, principal, request.body);
  const made = normalizeCreate(body, await contextOf(deps, principal, body));
  const { integration_id: integrationId, repo_url: repoUrl } = made.sourceConfig;
  if (integrationId !== null && repoUrl !== null) await checkIntegration(deps, principal, { integrationId, repoUrl });
  await refuseTakenProject(deps, principal.tenantId, made.name);
  const id = randomUUID();
  const owner = { id, tenant_id: principal.tenantId };
  const hasSecrets = Object.keys(made.secrets).length > 0;
  const secrets = hasSecrets ? sealSecrets(deps.sealer, made.secrets, owner) : null;
  const shared = await firstVariables(
    deps.db,
    deps.sealer,
    { ...owner, source: made.source, secret_references: made.secretReferences },
    { groupIds: body.variable_group_ids ?? [], own: made.secrets },
  );
  const settings = {
    ...owner,
    listener_id: made.sourceConfig.listener_id ?? deps.listenerId,
    agents_url: await agentsUrlOf(deps, made.sourceConfig.listener_id),
    name: made.name,
    slug: slugOf(made.name, id),
    source: made.source,
    source_config: made.sourceConfig,
    source_revision_config: made.sourceRevisionConfig,
    tracked_ref: made.trackedRef,
    secret_references: made.secretReferences,
    shareable: made.shareable,
    route_through_gateway: made.routeThroughGateway,
    agent_id: made.agent?.agent_id ?? null,
    agent_environment: made.agent?.environment ?? null,
    secrets,
    revision: made.createsRevision
      ? newRevision(made, {
          now: deps.db.now(),
          secretSetId: (shared?.set ?? secrets)?.id ?? null,
          awaitsDatabase: true,
          origin: { reason: "deploy", actor: principal.actor },
        })
      : null,
    tracing: { otherName: slugOf(made.name, id), isWanted: deps.tracing !== null },
    actor: principal.actor,
  };
  if (shared === null) return createDeployment(deps.db, settings, request.responseRow);
  return deps.db.atomically(async () => {
    const row = await createDeployment(deps.db, settings, request.responseRow);
    const revisionId = settings.revision?.id ?? null;
    await useGroups(deps.db, principal, { deployment: row, revisionId, ownSetId: secrets?.id ?? null, shared });
    return row;
  });
}

/**
 * Returns the request with the listener that its selector chooses.
 * @throws ApiError 400 `noListenerMatches` or `invalidField`.
 */
async function withChosenListener(
  { db }: ApiDeps,
  { tenantId }: Principal,
  body: CreateDeployment,
): Promise<CreateDeployment> {
  const { listener_selector: selector, ...config } = body.source_config;
  if (!selector) return body;
  const listener_id = chooseListener(body.source, { ...config, selector }, await listListenerCandidates(db, tenantId));
  return { ...body, source_config: { ...config, listener_id } };
}

/** Returns the address of a separate data plane; the built-in one has none. */
async function agentsUrlOf({ db, settings, listenerId }: ApiDeps, chosen: string | null): Promise<string | null> {
  return chosen !== null || settings.isDataPlaneRemote ? readAgentsUrl(db, chosen ?? listenerId) : null;
}

/** Reads only what the rules of the requested source need. */
async function contextOf(
  { db, settings }: ApiDeps,
  principal: Principal,
  body: CreateDeployment,
): Promise<RuleContext> {
  const isTemplate = body.source === "internal_template";
  const isExternal = body.source === "external_docker";
  const { resource_spec, listener_id } = body.source_config;
  return ruleContext(settings, {
    templateIds: isTemplate ? (await listTemplates(settings.templatesDir)).map(({ id }) => id) : [],
    listeners: isExternal || listener_id ? await listListenerNamespaces(db, principal.tenantId) : [],
    podRights: resource_spec && listener_id ? await readListenerCapabilities(db, principal.tenantId, listener_id) : [],
  });
}
