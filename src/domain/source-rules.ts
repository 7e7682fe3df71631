import type { SourceConfig, SourceKind, SourceRevisionConfig } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import { checkCommand } from "./commands.ts";
import { type ConfigPathField, checkConfigPath } from "./config-path.ts";
import { checkCustomUrl } from "./custom-url.ts";
import { checkRepoUrl } from "./git-url.ts";
import { checkImageUri } from "./image-reference.ts";
import { modes } from "./mode.ts";
import { checkRef } from "./refs.ts";
import type { RuleContext } from "./settings.ts";

/**
 * The rule of a source for a field, besides `required` and `optional`. `none`: must be null; `off`: null or false;
 * `ignored`: accepted and dropped; `revision`: may be missing until a revision is created.
 */
export type FieldRule = "required" | "optional" | "none" | "off" | "ignored" | "revision";

type Row = Readonly<Record<SourceKind, FieldRule>>;

const onlyGithub = (rule: FieldRule): Row => row(rule, "none", "none", "none", "none");
const onlyExternal = (rule: FieldRule): Row => row("none", "none", "none", "none", rule);

/** Contract 4.1 as data, source settings. Columns: github, internal_docker, internal_source, internal_template, external_docker. */
export const sourceConfigRules: Readonly<Record<Exclude<keyof SourceConfig, "repo_branch">, Row>> = {
  deployment_type: row("optional", "optional", "optional", "optional", "none"),
  integration_id: onlyGithub("optional"),
  repo_url: onlyGithub("required"),
  build_on_push: row("required", "off", "off", "off", "off"),
  custom_url: onlyExternal("optional"),
  resource_spec: row("optional", "none", "optional", "optional", "optional"),
  listener_id: row("optional", "none", "optional", "optional", "optional"),
  listener_config: row("optional", "none", "optional", "optional", "optional"),
  install_command: row("optional", "optional", "optional", "optional", "ignored"),
  build_command: row("optional", "optional", "optional", "optional", "ignored"),
  template_id: row("none", "none", "none", "required", "none"),
  engine: row("optional", "none", "optional", "optional", "none"),
};

/** Contract 4.1 as data, settings of a revision. Errors are reported in this order. */
export const revisionConfigRules = {
  repo_ref: onlyGithub("required"),
  image_uri: row("none", "revision", "none", "none", "required"),
  source_tarball_path: row("none", "none", "revision", "none", "none"),
  langgraph_config_path: row("required", "none", "revision", "none", "none"),
} as const satisfies Partial<Record<keyof SourceRevisionConfig, Row>>;

export type SourceConfigField = keyof typeof sourceConfigRules;
export type RevisionConfigField = keyof typeof revisionConfigRules;

export const sourceConfigFields = Object.keys(sourceConfigRules) as SourceConfigField[];
export const revisionConfigFields = Object.keys(revisionConfigRules) as RevisionConfigField[];

function row(
  github: FieldRule,
  internal_docker: FieldRule,
  internal_source: FieldRule,
  internal_template: FieldRule,
  external_docker: FieldRule,
): Row {
  return { github, internal_docker, internal_source, internal_template, external_docker };
}

/** Checks that the mode offers a source. @throws ApiError 400 `sourceNotInMode`. */
export function checkSourceOffered(source: SourceKind, context: RuleContext): void {
  const { sources } = modes[context.mode];
  if (!sources.includes(source)) throw errors.sourceNotInMode(source, context.mode, sources);
}

/**
 * Checks merged source settings: each field against the table, then each value. Combinations that need more
 * (listeners, refs of tags, sizes) have their own rules.
 *
 * @throws ApiError 400, naming the field.
 */
export function checkSourceConfig(source: SourceKind, config: SourceConfig, context: RuleContext): void {
  for (const field of sourceConfigFields) {
    if (field === "resource_spec" && isScale(config)) continue;
    checkPresence(`source_config.${field}`, source, sourceConfigRules[field][source], config[field] ?? null);
  }
  checkSizesOrigin(source, config);
  if (isScale(config) && config.resource_spec?.min_scale === 0) {
    const because = "must be at least 1 for type 'prod'. A deployment of type 'dev_zero' sleeps without requests.";
    throw errors.invalidField("source_config.resource_spec.min_scale", because);
  }
  if (config.repo_url !== null) checkRepoUrl(config.repo_url, context);
  if (config.custom_url !== null) checkCustomUrl(config.custom_url, context.ownHost);
  for (const field of ["install_command", "build_command"] as const) {
    const command = config[field];
    if (command !== null && sourceConfigRules[field][source] !== "ignored") {
      checkCommand(`source_config.${field}`, command);
    }
  }
}

/**
 * Checks the merged settings of a revision.
 * @param source of the revision, which `revision_source` may make different from the deployment's.
 * @param madeNow whether a revision is created from it, so that nothing may be missing.
 * @param configPathField the name by which the request sent the config path.
 * @throws ApiError 400, naming the field.
 */
export function checkRevisionConfig(
  source: SourceKind,
  config: SourceRevisionConfig,
  context: RuleContext,
  { madeNow, configPathField }: { madeNow: boolean; configPathField: ConfigPathField },
): void {
  for (const field of revisionConfigFields) {
    const rule = revisionConfigRules[field][source];
    const effective = rule === "revision" ? (madeNow ? "required" : "optional") : rule;
    const name = field === "langgraph_config_path" ? configPathField : field;
    checkPresence(`source_revision_config.${name}`, source, effective, config[field]);
  }
  if (config.repo_ref !== null) checkRef("source_revision_config.repo_ref", config.repo_ref);
  if (config.image_uri !== null) checkImageUri(config.image_uri);
  if (config.langgraph_config_path !== null) checkConfigPath(config.langgraph_config_path, configPathField);
  const { source_tarball_path: tarball } = config;
  if (tarball !== null && !context.uploadedPaths.includes(tarball)) throw errors.invalidTarballPath();
}

/** Returns whether a revision of this source still waits for its image or archive. */
export function lacksArtifactSource(source: SourceKind, config: SourceRevisionConfig): boolean {
  if (source === "internal_docker") return config.image_uri === null;
  return source === "internal_source" && config.source_tarball_path === null;
}

/** A type defines the sizes of what runs here, except the number of replicas. In a cluster, a resource spec defines them. */
function checkSizesOrigin(source: SourceKind, config: SourceConfig): void {
  if (source === "external_docker") return;
  const forClusters = isScale(config)
    ? (["listener_config"] as const)
    : (["resource_spec", "listener_config"] as const);
  for (const field of config.listener_id === null ? forClusters : (["deployment_type"] as const)) {
    checkPresence(`source_config.${field}`, source, "none", config[field]);
  }
}

/** Returns whether a spec only has the numbers of replicas of a type that may run several. */
function isScale({ deployment_type: type, resource_spec: spec }: SourceConfig): boolean {
  if (type !== "prod" || spec === null) return false;
  const fields = Object.keys(spec);
  return fields.length > 0 && fields.every((field) => field === "min_scale" || field === "max_scale");
}

function checkPresence(field: string, source: SourceKind, rule: FieldRule, value: unknown): void {
  if (rule === "required" && value === null) throw errors.fieldRequired(field, source);
  if (rule === "none" && value !== null) throw errors.fieldNotApplicable(field, source);
  if (rule === "off" && value === true) throw errors.fieldNotApplicable(field, source);
}
