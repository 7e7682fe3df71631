import { isDeepStrictEqual } from "node:util";
import type {
  PatchDeployment,
  PatchResourceTiers,
  SourceConfig,
  SourceKind,
  SourceRevisionConfig,
} from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import type { CreateRevision } from "../contract/revisions/revision.ts";
import { isBeingDeleted } from "./deployment-status.ts";
import { checkImmutables } from "./immutables.ts";
import {
  isGiven,
  mergeRevisionConfig,
  mergeSourceConfig,
  sentConfigPath,
  sentConfigPathField,
  settingsForSource,
  settingsToKeep,
} from "./merge.ts";
import { checkRef, normalizeRef } from "./refs.ts";
import { withoutDefaults } from "./resource-rules.ts";
import { chooseRevisionSource } from "./revision-source.ts";
import { checkOneOrigin, checkSecretReferences, checkSecrets } from "./secret-names.ts";
import type { ChangedDeployment, CurrentDeployment, RuleContext } from "./settings.ts";
import { checkRevisionConfig, checkSourceConfig, lacksArtifactSource, sourceConfigRules } from "./source-rules.ts";
import { mergeTiers, sizesOf } from "./tiers.ts";
import { checkTracking } from "./tracking.ts";

/**
 * Applies a PATCH to a deployment (contract 4.2 to 4.4). A field that requests a revision does so even with its current
 * value; null, absent and `secrets: []` change nothing.
 *
 * @throws ApiError 400 with the violated rule; 422 for two different config paths.
 */
export function applyPatch(current: CurrentDeployment, patch: Patch, context: RuleContext): ChangedDeployment {
  checkImmutables(current, patch);
  const creation = wantsRevision(current, patch) ? "ifPossible" : isResized(current, patch) ? "sameCode" : "no";
  return change(current, patch, context, creation);
}

/** Every field that a client may change; sizes of parts have an operation of their own. */
export type Patch = PatchDeployment & PatchResourceTiers;

/** Applies resource tiers. @throws ApiError 400 `invalidField` without a size, or for one that the type does not have. */
export function applyResourceTiers(
  current: CurrentDeployment,
  tiers: PatchResourceTiers,
  context: RuleContext,
): ChangedDeployment {
  if (!isGiven(tiers.compute_tier) && !isGiven(tiers.database_tier)) {
    throw errors.invalidField("compute_tier", "or 'database_tier' must be given.");
  }
  return applyPatch(current, tiers, context);
}

function isResized(current: CurrentDeployment, patch: Patch): boolean {
  const type = current.sourceConfig.deployment_type;
  return !isDeepStrictEqual(sizesOf(type, mergeTiers(current.tiers, type, patch)), sizesOf(type, current.tiers));
}

/**
 * Applies POST .../revisions to a deployment: always a revision; an empty body runs the current settings again.
 *
 * @throws ApiError 400, also when there is no image or archive to run yet.
 */
export function applyNewRevision(
  current: CurrentDeployment,
  body: CreateRevision,
  context: RuleContext,
): ChangedDeployment & { revision: NonNullable<ChangedDeployment["revision"]> } {
  checkImmutables(current, body);
  const changed = change(current, body, context, "always");
  return { ...changed, revision: changed.revision as NonNullable<typeof changed.revision> };
}

/** Applies a push to the tracked branch: a revision of the branch's head with the current settings. */
export function applyPush(current: CurrentDeployment, context: RuleContext): ChangedDeployment {
  return change(
    current,
    { revision_source: "github", source_revision_config: { repo_ref: current.trackedRef } },
    context,
    "always",
  );
}

/**
 * Whether a change creates a revision. `no`: settings only. `ifPossible`: yes, unless nothing can run yet. `sameCode`: the
 * same, with exactly the code that was resolved last. `always`: yes, or the change is refused.
 */
type RevisionCreation = "no" | "ifPossible" | "sameCode" | "always";

function change(
  current: CurrentDeployment,
  patch: Patch,
  context: RuleContext,
  creation: RevisionCreation,
): ChangedDeployment {
  if (isBeingDeleted(current.status)) throw errors.beingDeleted(current.id);
  const sent = patch.source_revision_config ?? {};
  const sourceConfig = mergedSourceConfig(current, patch, context);
  // An address that was allowed when it was chosen does not keep other settings from changing.
  const isSameAddress = sourceConfig.custom_url === current.sourceConfig.custom_url;
  checkSourceConfig(current.source, sourceConfig, isSameAddress ? { ...context, ownHost: null } : context);
  const trackedRef = mergedTracking(current, patch);
  checkTracking(sourceConfig, trackedRef);
  const tiers = mergeTiers(current.tiers, sourceConfig.deployment_type, patch);
  const { secrets, secretReferences } = mergedSecrets(current, patch);
  const unchanged = {
    sourceConfig,
    sourceRevisionConfig: current.sourceRevisionConfig,
    trackedRef,
    secrets,
    secretReferences,
    tiers,
  };
  // An impossible revision_source is reported even if no revision is created.
  const isChosen = creation !== "no" || isGiven(patch.revision_source);
  const source = isChosen ? chooseRevisionSource(current, patch, context) : current.source;
  if (creation === "no") return { ...unchanged, revision: null };

  const merged = mergeRevisionConfig(current.sourceRevisionConfig, sent);
  const facts = creation === "sameCode" ? {} : factsOfRevision(current, patch);
  const config = settingsForSource(source, { ...merged, ...facts }, sent);
  // Before the first image or archive nothing can run: the settings are stored until it arrives.
  const isEarly = creation !== "always" && current.latestRevisionSource === null && lacksArtifactSource(source, config);
  checkRevisionConfig(source, config, withKept(context, current.sourceRevisionConfig), {
    madeNow: !isEarly,
    configPathField: sentConfigPathField(sent),
  });
  const sourceRevisionConfig = settingsToKeep(current.source, merged, { source, config });
  const sizes = sizesOf(sourceConfig.deployment_type, tiers);
  const revision = isEarly ? null : { source, sourceConfig, sourceRevisionConfig: config, secretReferences, sizes };
  return { ...unchanged, sourceRevisionConfig, revision };
}

/** Returns whether the patch contains a field that requests a revision (contract 4.4). */
function wantsRevision(current: CurrentDeployment, patch: PatchDeployment): boolean {
  const sent = patch.source_revision_config ?? {};
  const config = patch.source_config ?? {};
  const references = patch.secret_references;
  return (
    [sent.repo_ref, sent.image_uri, sent.source_tarball_path, sentConfigPath(sent)].some(isGiven) ||
    isGiven(config.resource_spec) ||
    isGiven(config.engine) ||
    commands.some((field) => isGiven(config[field]) && !isIgnored(field, current.source)) ||
    (patch.secrets ?? []).length > 0 ||
    (isGiven(references) && (references.length > 0 || (current.secretReferences ?? []).length > 0))
  );
}

const commands = ["install_command", "build_command"] as const;
const isIgnored = (field: (typeof commands)[number], source: SourceKind) =>
  sourceConfigRules[field][source] === "ignored";

/**
 * Merges source settings. Responses fill in a serving URL and sizes; a client that sends them back changes nothing, so that
 * filled-in values do not become the image's own. As null changes nothing either, an empty text removes a custom URL.
 */
function mergedSourceConfig(current: CurrentDeployment, patch: PatchDeployment, context: RuleContext): SourceConfig {
  const { deployment_type: _fixed, ...sent } = patch.source_config ?? {};
  if (sent.custom_url === current.url) delete sent.custom_url;
  if (isGiven(sent.resource_spec)) {
    sent.resource_spec = withoutDefaults(sent.resource_spec, current.sourceConfig.resource_spec ?? {});
  }
  for (const field of commands) if (isIgnored(field, current.source)) delete sent[field];
  const merged = mergeSourceConfig(current.sourceConfig, sent, context);
  const isTakenAway = sent.custom_url === "" && current.source === "external_docker";
  return isTakenAway ? { ...merged, custom_url: null } : merged;
}

/** A deployed ref becomes the tracked one. `tracked_repo_ref` changes only the tracked ref and takes precedence. */
function mergedTracking(current: CurrentDeployment, patch: PatchDeployment): string | null {
  const { tracked_repo_ref: tracked } = patch;
  if (isGiven(tracked)) {
    if (current.source !== "github") throw errors.fieldNotApplicable("tracked_repo_ref", current.source);
    checkRef("tracked_repo_ref", tracked);
    return normalizeRef(tracked);
  }
  const ref = patch.source_revision_config?.repo_ref;
  return current.source === "github" && isGiven(ref) ? normalizeRef(ref) : current.trackedRef;
}

function mergedSecrets(current: CurrentDeployment, patch: PatchDeployment) {
  const { source } = current;
  const isReplaced = (patch.secrets ?? []).length > 0;
  const secrets = isReplaced ? checkSecrets(patch.secrets ?? [], source) : null;
  const sent = patch.secret_references;
  if (isGiven(sent)) checkSecretReferences(sent, source);
  const secretReferences = isGiven(sent) ? (sent.length === 0 ? null : sent) : current.secretReferences;
  checkOneOrigin(secrets === null ? current.secretNames : Object.keys(secrets), secretReferences);
  return { secrets, secretReferences };
}

/** Returns the values of one revision only: the commit is resolved again, and packages described the previous code. */
function factsOfRevision(current: CurrentDeployment, patch: PatchDeployment): Partial<SourceRevisionConfig> {
  const { image_uri: image, source_tarball_path: tarball, repo_ref: ref } = patch.source_revision_config ?? {};
  const isNewCode = [image, tarball, ref].some(isGiven);
  const kept = isNewCode ? null : current.sourceRevisionConfig.tracked_packages;
  return { repo_commit_sha: null, deepagents_version: null, tracked_packages: patch.tracked_packages ?? kept };
}

/** An archive used by a revision stays usable, even if the caller did not look it up again. */
function withKept(context: RuleContext, { source_tarball_path: kept }: SourceRevisionConfig): RuleContext {
  return kept === null ? context : { ...context, uploadedPaths: [...context.uploadedPaths, kept] };
}
