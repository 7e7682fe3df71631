import { createHash, randomUUID } from "node:crypto";
import type { Principal } from "../auth/principal.ts";
import { listTemplates } from "../builds/templates.ts";
import type { CreateDeployment } from "../contract/deployment.ts";
import { ApiError, errors } from "../contract/error.ts";
import { normaliseCreate } from "../domain/create.ts";
import { slugOf } from "../domain/names.ts";
import type { RuleContext } from "../domain/settings.ts";
import { createDeployment, type DeploymentRow, findDeployment } from "../store/deployments.ts";
import { findIdempotencyKey, type IdempotencyKey } from "../store/idempotency-keys.ts";
import { sealSecrets } from "../store/secrets.ts";
import { listListenerPlaces } from "../store/workspace-listeners.ts";
import type { ApiDeps } from "./app.ts";
import { newRevision, ruleContext } from "./settings-of.ts";

interface CreateRequest {
  principal: Principal;
  body: CreateDeployment;
  idempotencyKey: string | string[] | undefined;
}

/**
 * Creates a deployment with its first revision. The same request sent again under its `Idempotency-Key` finds what it
 * made; without a key the second one finds the name taken.
 *
 * @throws ApiError 400 for a broken rule, 409 for a name, agent environment or key that is taken.
 */
export async function createFromRequest(deps: ApiDeps, request: CreateRequest): Promise<DeploymentRow> {
  const idempotency = idempotencyOf(request);
  const { tenantId } = request.principal;
  const before = idempotency && (await findMade(deps, tenantId, idempotency));
  if (before) return before;
  try {
    const id = await createNew(deps, request, idempotency);
    return (await findDeployment(deps.db, tenantId, id)) as DeploymentRow;
  } catch (error) {
    // The first of two equal requests may have been at work when we looked.
    const isTaken = error instanceof ApiError && error.status === 409;
    const meanwhile = isTaken && idempotency ? await findMade(deps, tenantId, idempotency) : undefined;
    if (meanwhile) return meanwhile;
    throw error;
  }
}

async function createNew(
  deps: ApiDeps,
  { principal, body }: CreateRequest,
  idempotency: IdempotencyKey | null,
): Promise<string> {
  const made = normaliseCreate(body, await contextOf(deps, principal, body));
  const id = randomUUID();
  const owner = { id, tenant_id: principal.tenantId };
  const hasSecrets = Object.keys(made.secrets).length > 0;
  const secrets = hasSecrets ? sealSecrets(deps.sealer, made.secrets, owner) : null;
  await createDeployment(deps.db, {
    ...owner,
    listener_id: made.sourceConfig.listener_id ?? deps.listenerId,
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
      ? newRevision(made, { secretSetId: secrets?.id ?? null, awaitsDatabase: true })
      : null,
    idempotency,
    actor: principal.actor,
  });
  return id;
}

/** Reads only what the source of the request needs. */
async function contextOf(
  { db, settings }: ApiDeps,
  principal: Principal,
  body: CreateDeployment,
): Promise<RuleContext> {
  const isTemplate = body.source === "internal_template";
  const isExternal = body.source === "external_docker";
  return ruleContext(settings, {
    templateIds: isTemplate ? (await listTemplates(settings.templatesDir)).map(({ id }) => id) : [],
    listeners: isExternal ? await listListenerPlaces(db, principal.tenantId) : [],
  });
}

/** The digest is of the request as it was understood, so that blanks and the order of unknown keys do not matter. */
function idempotencyOf({ body, idempotencyKey: key }: CreateRequest): IdempotencyKey | null {
  if (typeof key !== "string" || key === "" || key.length > keyLengthMax) return null;
  return { key, requestHash: createHash("sha256").update(JSON.stringify(body)).digest() };
}

const keyLengthMax = 255;

/** @throws ApiError 409 `idempotencyKeyReused` when the key was used for another request. */
async function findMade(
  { db }: ApiDeps,
  tenantId: string,
  { key, requestHash }: IdempotencyKey,
): Promise<DeploymentRow | undefined> {
  const used = await findIdempotencyKey(db, tenantId, key);
  if (used === undefined) return undefined;
  if (!used.requestHash.equals(requestHash)) throw errors.idempotencyKeyReused();
  return findDeployment(db, tenantId, used.deploymentId);
}
