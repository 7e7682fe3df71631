import { isDeepStrictEqual } from "node:util";
import type { FastifyRequest } from "fastify";
import type { Principal } from "../../auth/principal.ts";
import type { PatchDeployment } from "../../contract/deployments/deployment.ts";
import { errors } from "../../contract/error.ts";
import type { RevisionReason } from "../../contract/revisions/revision.ts";
import { changesBetween, secretChangesBetween } from "../../domain/audit.ts";
import { servingUrl } from "../../domain/serving-url.ts";
import type { ChangedDeployment, CurrentDeployment, RuleContext } from "../../domain/settings.ts";
import { findFinishedUpload } from "../../store/builds/uploads.ts";
import { readListenerCapabilities } from "../../store/data-plane/listener-sessions.ts";
import { currentOf, newRevision } from "../../store/deployments/deployment-settings.ts";
import {
  changeDeployment,
  type DeploymentChange,
  type DeploymentRow,
  findDeployment,
  lockDeployment,
} from "../../store/deployments/deployments.ts";
import type { Trx } from "../../store/engine/database.ts";
import {
  findRevision,
  type NewRevision,
  type RevisionRow,
  type ShownRevisionRow,
} from "../../store/revisions/revisions.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import { openSecrets, sealSecrets } from "../../store/secrets/secrets.ts";
import type { AuditNote } from "../../store/tenants/audit.ts";
import { checkGrowth } from "../../store/tenants/quotas.ts";
import { pinVariables, type RevisionVariables, recordVariables } from "../../store/variables/revision-variables.ts";
import type { ApiDeps } from "../deps.ts";
import { refuseIfChanged } from "../http/etag.ts";
import { deploymentOf } from "./present-deployment.ts";
import { ruleContext } from "./rule-context.ts";

export interface ChangeRequest {
  principal: Principal;
  deploymentId: string;
  deploymentsUrl: string;
  /** Path of the uploaded archive that the request names, if any. */
  tarballPath?: string | null | undefined;
  /** Name of the operation in the audit log. */
  action: string;
  /** Why the new revision exists, if one is created. */
  reason: RevisionReason;
  /** Settings without rules, written as they are. */
  plain?: Partial<Pick<PatchDeployment, "display_name" | "shareable" | "route_through_gateway">>;
  /** Request whose `If-Match` must still hold. */
  ifMatch: FastifyRequest;
  /** Applies the rules. Anything it reads besides the deployment must go through `trx`. */
  decide(current: CurrentDeployment, context: RuleContext, locked: Locked): Promise<Decided> | Decided;
}

/** The transaction that holds the deployment, and the deployment as it was before the change. */
export interface Locked {
  trx: Trx;
  row: DeploymentRow;
}

export interface StoredVariables extends RevisionVariables {
  /** Everything that the revision ran with. */
  values: Record<string, string>;
  /** The variables of the deployment alone. */
  ownValues: Record<string, string>;
  /** Whether the deployment gets them too, and its next revisions with it. */
  isForDeployment: boolean;
}

export interface Decided {
  changed: ChangedDeployment;
  /** Earlier revision whose artifact runs again. */
  again?: RevisionRow;
  /** Variables stored earlier that the revision gets instead of the deployment's current ones. */
  stored?: StoredVariables;
}

/**
 * Changes a deployment while its row is locked, so that the rules see exactly what changes. A request that changes
 * nothing writes nothing.
 *
 * @returns the deployment after the change, and the revision that was created.
 * @throws ApiError 404; 412 when `If-Match` no longer holds; errors of the rules; 400 `quotaExceeded` when the
 *   deployment would outgrow the quota of its workspace.
 */
export async function changeSettings(
  { db, sealer, settings }: ApiDeps,
  request: ChangeRequest,
): Promise<{ row: DeploymentRow; revision: ShownRevisionRow | undefined }> {
  const { tenantId } = request.principal;
  const id = request.deploymentId;
  // A finished upload never changes, so it can be read before the lock, which keeps the transaction short.
  const path = request.tarballPath ?? undefined;
  const upload = path === undefined ? undefined : await findFinishedUpload(db, id, path);
  const context = ruleContext(settings, { uploadedPaths: upload === undefined ? [] : [upload.object_path] });

  const done = await db.transaction(async (trx) => {
    const row = await lockDeployment(trx, tenantId, id);
    if (row === undefined) throw errors.deploymentNotFound(id);
    refuseIfChanged(request.ifMatch, () => deploymentOf(row, { ...request, sealer }));
    const latest = await findLatestRevision(trx, row);
    const url = servingUrl(row, request.deploymentsUrl);
    const facts = { latestRevisionSource: latest?.source ?? null, sealer, url };
    const isExternal = row.source === "external_docker" || row.source_config.listener_id !== null;
    const podRights = isExternal ? await readListenerCapabilities(trx, tenantId, row.listener_id) : [];
    const decided = await request.decide(currentOf(row, facts), { ...context, podRights }, { trx, row });
    await checkGrowth(trx, row, decided.changed.sourceConfig);
    const made = await writeOf(trx, row, decided, { now: db.now(), sealer, request });
    if (made === null) return { row, revision: undefined };
    await changeDeployment(trx, row, made);
    const { revision, variables } = made;
    if (revision !== null) await recordVariables(trx, revision.id, variables);
    return {
      row: (await findDeployment(trx, tenantId, id)) as DeploymentRow,
      revision:
        revision === null
          ? undefined
          : await findRevision(trx, tenantId, { deploymentId: id, revisionId: revision.id }),
    };
  });
  db.reached("settings changed");
  db.changes.wake();
  return done;
}

/** Returns what a decision writes; null: it changes nothing. */
async function writeOf(
  trx: Trx,
  row: DeploymentRow,
  { changed, again, stored }: Decided,
  { now, sealer, request }: { now: Date; sealer: Sealer; request: ChangeRequest },
): Promise<(Parameters<typeof changeDeployment>[2] & { variables: RevisionVariables }) | null> {
  const { actor } = request.principal;
  const secrets = changed.secrets === null ? null : sealSecrets(sealer, changed.secrets, row);
  const setId = secrets?.id ?? row.secret_set_id;
  const own = { setId, values: () => changed.secrets ?? openSecrets(sealer, row, row) };
  const target = { ...row, secret_references: changed.secretReferences };
  const isPinned = changed.revision !== null && stored === undefined;
  const variables = isPinned
    ? await pinVariables(trx, sealer, target, own)
    : (stored ?? { setId, ownSetId: setId, groups: null });
  const awaitsDatabase = row.status === "AWAITING_DATABASE";
  const origin = { reason: request.reason, actor };
  const made = { now, secretSetId: variables.setId, awaitsDatabase, origin, ...(again && { again }) };
  const revision = changed.revision === null ? null : newRevision(changed.revision, made);
  const restored = stored?.isForDeployment ? stored : null;
  const keptSetId = restored === null ? row.secret_set_id : restored.ownSetId;
  const change = changeOf(row, { ...changed, secretSetId: keptSetId }, request.plain);
  if (Object.keys(change).length === 0 && secrets === null && revision === null) return null;
  const values = changed.secrets ?? restored?.ownValues ?? null;
  const audit = { actor, action: request.action, ...auditOf(row, { change, values, revision, sealer }) };
  return { change, secrets, revision, audit, variables };
}

function auditOf(
  row: DeploymentRow,
  made: {
    change: DeploymentChange;
    /** All variables after the change; null: unchanged. */
    values: Record<string, string> | null;
    revision: NewRevision | null;
    sealer: Sealer;
  },
): Pick<AuditNote, "changes" | "secrets" | "details"> {
  const { values, revision, sealer } = made;
  const { secret_set_id: _, ...change } = made.change;
  const before = Object.fromEntries(Object.keys(change).map((column) => [column, row[column as keyof typeof change]]));
  return {
    changes: changesBetween(before, change),
    secrets: values && secretChangesBetween(openSecrets(sealer, row, row), values),
    details:
      revision === null
        ? {}
        : { revision_id: revision.id, triggered_by: revision.triggered_by, reason: revision.reason },
  };
}

async function findLatestRevision(trx: Trx, row: DeploymentRow): Promise<RevisionRow | undefined> {
  if (row.latest_revision_id === null) return undefined;
  return findRevision(trx, row.tenant_id, { deploymentId: row.id, revisionId: row.latest_revision_id });
}

/** Returns the columns whose values change. */
function changeOf(
  row: DeploymentRow,
  changed: ChangedDeployment & { secretSetId: string | null },
  plain: ChangeRequest["plain"] = {},
): DeploymentChange {
  const wanted: DeploymentChange = {
    source_config: changed.sourceConfig,
    source_revision_config: changed.sourceRevisionConfig,
    tracked_ref: changed.trackedRef,
    secret_set_id: changed.secretSetId,
    secret_references: changed.secretReferences,
    deployment_tier: changed.tiers.deployment,
    compute_tier: changed.tiers.compute,
    database_tier: changed.tiers.database,
    ...(changed.revision !== null && { tracked_packages: changed.revision.sourceRevisionConfig.tracked_packages }),
    display_name: plain.display_name ?? row.display_name,
    shareable: plain.shareable ?? row.shareable,
    route_through_gateway: plain.route_through_gateway ?? row.route_through_gateway,
  };
  const entries = Object.entries(wanted) as [keyof DeploymentChange, unknown][];
  return Object.fromEntries(entries.filter(([column, value]) => !isDeepStrictEqual(value, row[column])));
}
