import type {
  SourceConfig,
  SourceConfigInput,
  SourceKind,
  SourceRevisionConfig,
  SourceRevisionConfigInput,
} from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import type { ConfigPathField } from "./config-path.ts";
import { normalizeRef } from "./refs.ts";
import { normalizeResourceSpec } from "./resource-rules.ts";
import type { RuleContext } from "./settings.ts";
import { revisionConfigFields, revisionConfigRules, sourceConfigFields } from "./source-rules.ts";

/** Merges source settings: non-null fields overwrite, others stay; `resource_spec` is replaced as a whole (contract 4.2). */
export function mergeSourceConfig(
  current: SourceConfig,
  sent: SourceConfigInput,
  { podRights }: Pick<RuleContext, "podRights">,
): SourceConfig {
  const given = Object.fromEntries(
    sourceConfigFields.map((field) => [field, sent[field]]).filter(([, value]) => isGiven(value)),
  ) as Partial<SourceConfig>;
  if (given.resource_spec) given.resource_spec = normalizeResourceSpec(given.resource_spec, podRights);
  // A listener_config without a namespace means nothing.
  if (!isGiven(given.listener_config?.k8s_namespace)) delete given.listener_config;
  const merged = { ...current, ...given };
  return merged.engine === "default" ? { ...merged, engine: null } : merged;
}

/** Merges the settings of a revision. The two names of the config path get the same value. */
export function mergeRevisionConfig(
  current: SourceRevisionConfig,
  sent: SourceRevisionConfigInput,
): SourceRevisionConfig {
  const configPath = sentConfigPath(sent) ?? current.langgraph_config_path;
  return {
    ...current,
    repo_ref: isGiven(sent.repo_ref) ? normalizeRef(sent.repo_ref) : current.repo_ref,
    image_uri: sent.image_uri ?? current.image_uri,
    source_tarball_path: sent.source_tarball_path ?? current.source_tarball_path,
    langgraph_config_path: configPath,
    framework_config_path: configPath,
  };
}

/** Returns the name under which a request sent the config path, for errors. */
export function sentConfigPathField(sent: SourceRevisionConfigInput): ConfigPathField {
  const isAlias = isGiven(sent.framework_config_path) && !isGiven(sent.langgraph_config_path);
  return isAlias ? "framework_config_path" : "langgraph_config_path";
}

/** Returns the config path of a request under either name. @throws ApiError 422 for two different values. */
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
 * Returns the merged settings that apply to a revision's source. Values left by another source are dropped; values in the
 * request stay, so that the rules can refuse them.
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
 * Returns the settings that the deployment shows after a revision of another source: those of that revision, and those of
 * the deployment's own source, which its next own revision needs.
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

/** Returns whether a value is given. Null equals absent in every request (contract 4.1). */
export function isGiven<T>(value: T): value is NonNullable<T> {
  return value !== null && value !== undefined;
}
