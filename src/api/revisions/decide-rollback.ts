import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { RevisionPath } from "../../contract/revisions/revision.ts";
import { redeploySettings } from "../../domain/redeploy.ts";
import { checkServed, type EarlierRevision, rollbackSettings } from "../../domain/run-again.ts";
import type { CurrentDeployment, RevisionSettings, RuleContext } from "../../domain/settings.ts";
import type { Db, Trx } from "../../store/engine/database.ts";
import { findRevision, type RevisionRow } from "../../store/revisions/revisions.ts";
import { findSecretSet } from "../../store/secrets/secrets.ts";
import { readRevisionVariables } from "../../store/variables/revision-variables.ts";
import type { Decided, StoredVariables } from "../deployments/change-deployment.ts";
import type { ApiDeps } from "../deps.ts";

/** Returns the settings that a rollback brings. @throws ApiError */
export async function decideRollback(
  deps: ApiDeps,
  db: Db | Trx,
  asked: {
    principal: Principal;
    params: RevisionPath;
    current: CurrentDeployment;
    context: RuleContext;
    isCodeOnly: boolean;
  },
): Promise<Decided & { changed: { revision: RevisionSettings }; again: RevisionRow }> {
  const { principal, params, current, context, isCodeOnly } = asked;
  const { deployment_id: deploymentId, revision_id: revisionId } = params;
  const again = await findRevision(db, principal.tenantId, { deploymentId, revisionId });
  if (again === undefined) throw errors.revisionNotFound(revisionId);
  const earlier = earlierOf(again);
  checkServed(earlier, current);
  if (isCodeOnly) return { changed: redeploySettings(earlier, current), again };
  const stored = { ...(await storedVariables(deps, db, again)), isForDeployment: true };
  return { changed: rollbackSettings(earlier, current, context), again, stored };
}

/** Returns the variables that a revision ran with. They are kept as long as the deployment. */
export async function storedVariables(
  { sealer }: ApiDeps,
  db: Db | Trx,
  revision: RevisionRow,
): Promise<StoredVariables> {
  const { deployment_id: deploymentId } = revision;
  const read = async (secretSetId: string | null) =>
    secretSetId === null
      ? {}
      : ((await findSecretSet(db, sealer, { listenerId: null, deploymentId, secretSetId }))?.values ?? {});
  const pinned = await readRevisionVariables(db, revision);
  const values = await read(pinned.setId);
  const ownValues = pinned.groups === null ? values : await read(pinned.ownSetId);
  return { ...pinned, values, ownValues, isForDeployment: false };
}

/** Converts a row to the form that the domain rules use. */
export function earlierOf(row: RevisionRow): EarlierRevision {
  return {
    id: row.id,
    status: row.status,
    source: row.source,
    sourceConfig: row.source_config,
    sourceRevisionConfig: row.source_revision_config,
    secretReferences: row.secret_references,
    sizes: row.sizes,
  };
}
