import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../src/contract/revisions/revision.ts";
import { deploymentNameLengthMax } from "../../src/domain/limits.ts";
import { type Draft, emptyDraft } from "./draft.ts";
import { numberText } from "./parts/revision-words.tsx";

/** Sources that another deployment can use, too. Uploads and pushed images belong to the deployment that got them. */
const repeatable = ["github", "external_docker", "internal_template"] as const;

/** Returns the source of a revision if another deployment can run it, otherwise undefined. */
export const trialSourceOf = ({ source }: Revision): Draft["source"] | undefined =>
  repeatable.find((one) => one === source);

/**
 * Returns a new deployment with the code of a revision, to try it without traffic: the commit or image of the revision, and the
 * settings and variables that its deployment has now. It sleeps while no request comes if this server builds and runs it.
 */
export function trialOf(deployment: Deployment, revision: Revision, groupIds: string[]): Draft {
  const { source_config: config, secrets, secret_references: references } = deployment;
  const { repo_commit_sha: sha, repo_ref: ref, image_uri: image } = revision.source_revision_config;
  const suffix = `-rev-${numberText(revision)}`;
  const { install_command, build_command, resource_spec } = config;
  return {
    ...emptyDraft,
    source: trialSourceOf(revision) ?? "github",
    name: deployment.name.slice(0, deploymentNameLengthMax - suffix.length) + suffix,
    type: "dev_zero",
    templateId: config.template_id ?? "",
    integrationId: config.integration_id ?? "",
    repoUrl: config.repo_url ?? "",
    ref: sha ?? ref ?? "",
    configPath: revision.source_revision_config.langgraph_config_path ?? emptyDraft.configPath,
    image: image ?? "",
    engine: config.engine == null || config.engine === "default" ? "" : config.engine,
    listenerId: config.listener_id ?? "",
    namespace: config.listener_config?.k8s_namespace ?? "",
    variables: secrets,
    groupIds,
    copied: { install_command, build_command, resource_spec, secret_references: references },
  };
}
