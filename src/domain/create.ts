import type { CreateDeployment, SourceConfig, SourceKind } from "../contract/deployments/deployment.ts";
import { errors } from "../contract/error.ts";
import { mergeRevisionConfig, mergeSourceConfig, sentConfigPathField } from "./merge.ts";
import { canonicalAgentId, checkDeploymentName, nameOfAgent } from "./names.ts";
import { placeDeployment } from "./placement.ts";
import { checkOneOrigin, checkSecretReferences, checkSecrets } from "./secret-names.ts";
import type { NewDeployment, RuleContext } from "./settings.ts";
import { blankSourceConfig, blankSourceRevisionConfig } from "./settings.ts";
import {
  checkRevisionConfig,
  checkSourceConfig,
  checkSourceOffered,
  lacksArtifactSource,
  sourceConfigRules,
} from "./source-rules.ts";
import { sizesOf } from "./tiers.ts";
import { checkTracking } from "./tracking.ts";

/**
 * Turns a create request into a deployment: fills in defaults and checks every rule of contract 4.1 to 4.6. The store
 * checks whether the name is free.
 *
 * @throws ApiError 400 with the violated rule; 422 for a missing name or two different config paths.
 */
export function normalizeCreate(body: CreateDeployment, context: RuleContext): NewDeployment {
  const { source } = body;
  const name = nameOf(body);
  checkDeploymentName(name);
  checkSourceOffered(source, context);
  const sourceConfig = withDefaults(source, mergeSourceConfig({ ...blankSourceConfig }, body.source_config, context));
  const sourceRevisionConfig = mergeRevisionConfig({ ...blankSourceRevisionConfig }, body.source_revision_config);
  const createsRevision = !lacksArtifactSource(source, sourceRevisionConfig);
  checkSourceConfig(source, sourceConfig, context);
  checkRevisionConfig(source, sourceRevisionConfig, context, {
    madeNow: createsRevision,
    configPathField: sentConfigPathField(body.source_revision_config),
  });
  checkTemplate(sourceConfig, context);
  const trackedRef = sourceRevisionConfig.repo_ref;
  checkTracking(sourceConfig, trackedRef);
  sourceConfig.listener_config = placeDeployment(source, sourceConfig, context);
  const secrets = checkSecrets(body.secrets ?? [], source);
  const secretReferences = body.secret_references ?? null;
  checkSecretReferences(secretReferences ?? [], source);
  checkOneOrigin(Object.keys(secrets), secretReferences);
  return {
    name,
    source,
    sourceConfig,
    sourceRevisionConfig,
    trackedRef,
    secrets,
    secretReferences: secretReferences?.length === 0 ? null : secretReferences,
    shareable: body.shareable ?? false,
    routeThroughGateway: body.route_through_gateway ?? false,
    agent: body.agent ? { ...body.agent, agent_id: canonicalAgentId(body.agent.agent_id) } : null,
    sizes: sizesOf(sourceConfig.deployment_type, { deployment: null, compute: null, database: null }),
    createsRevision,
  };
}

function nameOf({ name, agent }: CreateDeployment): string {
  if (typeof name === "string") return name;
  if (agent) return nameOfAgent(canonicalAgentId(agent.agent_id), agent.environment);
  const isMissing = name === undefined;
  throw errors.invalidRequest([
    {
      type: isMissing ? "missing" : "string_type",
      loc: ["body", "name"],
      msg: isMissing ? "Field required" : "Input should be a valid string",
      input: isMissing ? {} : null,
    },
  ]);
}

/** Checked at creation only, so that a template removed from the catalogue later does not block changes. */
function checkTemplate({ template_id: id }: SourceConfig, { templateIds }: RuleContext): void {
  if (id !== null && !templateIds.includes(id)) throw errors.templateUnknown(id, templateIds);
}

function withDefaults(source: SourceKind, config: SourceConfig): SourceConfig {
  const ignored = (field: "install_command" | "build_command") => sourceConfigRules[field][source] === "ignored";
  const hasSpec = source === "external_docker" || config.listener_id !== null;
  return {
    ...config,
    deployment_type: hasSpec ? config.deployment_type : (config.deployment_type ?? "prod"),
    build_on_push: source === "github" ? config.build_on_push : (config.build_on_push ?? false),
    install_command: ignored("install_command") ? null : config.install_command,
    build_command: ignored("build_command") ? null : config.build_command,
  };
}
