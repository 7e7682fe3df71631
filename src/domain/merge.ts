import type {
  SourceConfig,
  SourceConfigInput,
  SourceKind,
  SourceRevisionConfig,
  SourceRevisionConfigInput,
} from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import { normaliseRef } from "./refs.ts";
import { normaliseResourceSpec } from "./resource-rules.ts";
import { revisionConfigFields, revisionConfigRules, sourceConfigFields } from "./source-rules.ts";

/** Non-null fields overwrite, everything else stays; `resource_spec` is replaced as one object (contract 4.2). */
export function mergeSourceConfig(current: SourceConfig, sent: SourceConfigInput): SourceConfig {
  const given = Object.fromEntries(
    sourceConfigFields.map((field) => [field, sent[field]]).filter(([, value]) => isGiven(value)),
  ) as Partial<SourceConfig>;
  if (given.resource_spec) given.resource_spec = normaliseResourceSpec(given.resource_spec);
  // An object without a namespace says nothing.
  if (!isGiven(given.listener_config?.k8s_namespace)) delete given.listener_config;
  return { ...current, ...given };
}

/** The same for the settings of a revision; the two names of the config path become one value under both. */
export function mergeRevisionConfig(
  current: SourceRevisionConfig,
  sent: SourceRevisionConfigInput,
): SourceRevisionConfig {
  const configPath = sentConfigPath(sent) ?? current.langgraph_config_path;
  return {
    ...current,
    repo_ref: isGiven(sent.repo_ref) ? normaliseRef(sent.repo_ref) : current.repo_ref,
    image_uri: sent.image_uri ?? current.image_uri,
    source_tarball_path: sent.source_tarball_path ?? current.source_tarball_path,
    langgraph_config_path: configPath,
    framework_config_path: configPath,
  };
}

/** @throws ApiError 422 when both names are sent with different values. */
export function sentConfigPath(sent: SourceRevisionConfigInput): string | null {
  const { langgraph_config_path: path, framework_config_path: alias } = sent;
  if (isGiven(path) && isGiven(alias) && path !== alias) {
    throw errors.invalidRequest([
      {
        type: "value_error",
        loc: ["body", "source_revision_config", "framework_config_path"],
        msg: "Value error, framework_config_path and langgraph_config_path name one setting and must be equal",
        input: alias,
        ctx: { error: {} },
      },
    ]);
  }
  return path ?? alias ?? null;
}

/**
 * The settings of one revision: of the merged ones those that its source knows. What another source left behind is
 * dropped; what the request itself sends stays, so that the rules can refuse it.
 */
export function settingsForSource(
  source: SourceKind,
  merged: SourceRevisionConfig,
  sent: SourceRevisionConfigInput,
): SourceRevisionConfig {
  const kept = { ...merged };
  for (const field of revisionConfigFields) {
    const isSent = field === "langgraph_config_path" ? sentConfigPath(sent) !== null : isGiven(sent[field]);
    if (!isSent && revisionConfigRules[field][source] === "none") kept[field] = null;
  }
  return { ...kept, framework_config_path: kept.langgraph_config_path };
}

/**
 * What the deployment shows after a revision of a source that is not its own: that revision's settings, and beside them
 * those of its own source, which its next own revision needs.
 */
export function settingsToKeep(
  deploymentSource: SourceKind,
  current: SourceRevisionConfig,
  revision: { source: SourceKind; config: SourceRevisionConfig },
): SourceRevisionConfig {
  const kept = { ...revision.config };
  for (const field of revisionConfigFields) {
    const rules = revisionConfigRules[field];
    if (rules[revision.source] === "none" && rules[deploymentSource] !== "none") kept[field] = current[field];
  }
  return { ...kept, framework_config_path: kept.langgraph_config_path };
}

/** Null equals absent in every request (contract 4.1). */
export function isGiven<T>(value: T): value is NonNullable<T> {
  return value !== null && value !== undefined;
}
