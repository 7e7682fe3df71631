import { isDeepStrictEqual } from "node:util";
import { errors } from "../contract/error.ts";
import type { RevisionStatus } from "../contract/revisions/revision.ts";
import { isBeingDeleted } from "./deployment-status.ts";
import { settingsToKeep } from "./merge.ts";
import type { NamedRevision } from "./redeploy.ts";
import { normalizeResourceSpec } from "./resource-rules.ts";
import type { ChangedDeployment, CurrentDeployment, RevisionSettings, RuleContext } from "./settings.ts";
import { kindOf, sizesOf, type Tiers } from "./tiers.ts";

/** An earlier revision with everything that it ran with. */
export interface EarlierRevision extends NamedRevision, Pick<RevisionSettings, "secretReferences" | "sizes"> {}

type Rerun = ChangedDeployment & { revision: RevisionSettings };

/**
 * Returns a revision that restores what served with an earlier one: code, commands, resources and references to secrets. The
 * caller restores the stored variables. The deployment keeps its repository and its branch, so that the next push still
 * deploys.
 *
 * @throws ApiError 400 `neverServed`, `beingDeleted`, or `invalidField` when its pods are no longer allowed.
 */
export function rollbackSettings(named: EarlierRevision, current: CurrentDeployment, context: RuleContext): Rerun {
  checkServed(named, current);
  const { source, sourceRevisionConfig, secretReferences, sizes } = named;
  const { install_command, build_command, engine, resource_spec: spec, repo_url } = named.sourceConfig;
  const resource_spec = spec === null ? null : normalizeResourceSpec(spec, context.podRights);
  const sourceConfig = { ...current.sourceConfig, install_command, build_command, engine, resource_spec };
  return {
    sourceConfig,
    sourceRevisionConfig: settingsToKeep(current.source, current.sourceRevisionConfig, {
      source,
      config: sourceRevisionConfig,
    }),
    trackedRef: current.trackedRef,
    secretReferences,
    tiers: tiersFor(named, current),
    secrets: null,
    revision: { source, sourceConfig: { ...sourceConfig, repo_url }, sourceRevisionConfig, secretReferences, sizes },
  };
}

/** @throws ApiError 400 unless a rollback to the revision is possible. */
export function checkServed({ id, status }: { id: string; status: RevisionStatus }, current: CurrentDeployment): void {
  if (isBeingDeleted(current.status)) throw errors.beingDeleted(current.id);
  if (status !== "DEPLOYED") throw errors.neverServed(id, status);
}

/** Returns tiers that have the sizes of the earlier revision. */
function tiersFor({ sizes }: EarlierRevision, { sourceConfig, tiers }: CurrentDeployment): Tiers {
  const { deployment_type: type } = sourceConfig;
  const kind = kindOf(type);
  if (sizes === null || kind === null || isDeepStrictEqual(sizes, sizesOf(type, tiers))) return tiers;
  const { compute, database } = sizes;
  const isWhole = compute === database;
  return isWhole
    ? { deployment: `${kind}_${compute}`, compute: null, database: null }
    : { deployment: tiers.deployment, compute, database };
}

/**
 * Returns a revision that runs the code of an earlier one, whatever became of it, with the current variables and resources.
 * The settings of the deployment stay, so that its next deploy takes the code that they name.
 *
 * @param secrets replaces all variables; null: unchanged.
 */
export function sameCodeSettings(
  running: NamedRevision,
  current: CurrentDeployment,
  secrets: Record<string, string> | null,
): Rerun {
  const { source, sourceRevisionConfig } = running;
  const { install_command, build_command, engine, repo_url } = running.sourceConfig;
  const { secretReferences, tiers, sourceConfig } = current;
  return {
    ...unchangedSettings(current),
    secrets,
    revision: {
      source,
      sourceConfig: { ...sourceConfig, install_command, build_command, engine, repo_url },
      sourceRevisionConfig,
      secretReferences,
      sizes: sizesOf(sourceConfig.deployment_type, tiers),
    },
  };
}

/** Returns a revision with exactly what an earlier one ran with. The settings of the deployment stay. */
export function restartSettings(active: EarlierRevision, current: CurrentDeployment): Rerun {
  const { source, sourceConfig, sourceRevisionConfig, secretReferences, sizes } = active;
  const revision = { source, sourceConfig, sourceRevisionConfig, secretReferences, sizes };
  return { ...unchangedSettings(current), revision };
}

/** Returns the settings of a deployment as they are. @throws ApiError 400 `beingDeleted`. */
export function unchangedSettings(current: CurrentDeployment): Omit<ChangedDeployment, "revision"> {
  if (isBeingDeleted(current.status)) throw errors.beingDeleted(current.id);
  const { sourceConfig, sourceRevisionConfig, trackedRef, secretReferences, tiers } = current;
  return { sourceConfig, sourceRevisionConfig, trackedRef, secretReferences, tiers, secrets: null };
}
