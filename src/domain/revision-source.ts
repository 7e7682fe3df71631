import type { PatchDeployment, SourceKind } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import { isGiven, sentConfigPath } from "./merge.ts";
import type { CurrentDeployment, RuleContext } from "./settings.ts";
import { checkSourceOffered, revisionConfigRules } from "./source-rules.ts";

/**
 * Chooses the source of a change's revision. `revision_source` decides. Without it new code means the deployment's own
 * source, and a change without code keeps the source of the running code.
 *
 * @throws ApiError 400 `revisionSourceUnusable` when the deployment cannot have such a revision, or its input is missing.
 */
export function chooseRevisionSource(
  current: CurrentDeployment,
  patch: Pick<PatchDeployment, "revision_source" | "source_revision_config">,
  context: RuleContext,
): SourceKind {
  const sent = patch.source_revision_config ?? {};
  const { revision_source: wanted } = patch;
  if (isGiven(wanted)) return checkWanted(current, wanted, { sent, context });
  if (isGiven(sent.image_uri) && current.source !== "external_docker" && current.source !== "internal_docker") {
    throw errors.revisionSourceUnusable(
      `an image_uri on a deployment of source '${current.source}' needs revision_source 'internal_docker'.`,
    );
  }
  const isNewCode = [sent.repo_ref, sent.image_uri, sent.source_tarball_path].some(isGiven);
  const running = current.latestRevisionSource ?? current.source;
  const fits = sentConfigPath(sent) === null || revisionConfigRules.langgraph_config_path[running] !== "none";
  return !isNewCode && fits ? running : current.source;
}

function checkWanted(
  current: CurrentDeployment,
  wanted: NonNullable<PatchDeployment["revision_source"]>,
  { sent, context }: { sent: NonNullable<PatchDeployment["source_revision_config"]>; context: RuleContext },
): SourceKind {
  if (wanted !== current.source && (wanted === "github" || current.source === "external_docker")) {
    throw errors.revisionSourceUnusable(
      `revision_source '${wanted}' is not possible for a deployment of source '${current.source}'.`,
    );
  }
  if (wanted === "github") return wanted;
  if (wanted !== current.source) checkSourceOffered(wanted, context);
  const field = wanted === "internal_docker" ? "image_uri" : "source_tarball_path";
  if (!isGiven(sent[field]) && !isGiven(current.sourceRevisionConfig[field])) {
    throw errors.revisionSourceUnusable(`revision_source '${wanted}' needs '${field}'.`);
  }
  return wanted;
}
