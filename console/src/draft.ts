import type {
  CreateDeployment,
  DeploymentType,
  Secret,
  SecretReference,
  SourceConfig,
} from "../../src/contract/deployments/deployment.ts";
import { checkConfigPath } from "../../src/domain/config-path.ts";
import { checkRepoUrl } from "../../src/domain/git-url.ts";
import { checkImageUri } from "../../src/domain/image-reference.ts";
import { checkDeploymentName } from "../../src/domain/names.ts";
import { checkRef } from "../../src/domain/refs.ts";
import { checkVariableNames } from "../../src/domain/secret-names.ts";
import type { SourceFile } from "./archive.ts";
import { problemFrom } from "./server.ts";

/** A deployment that is not created yet. */
export interface Draft {
  source: "internal_template" | "github" | "internal_source" | "external_docker";
  name: string;
  type: DeploymentType;
  templateId: string;
  /** "": the repository is public. */
  integrationId: string;
  repoUrl: string;
  ref: string;
  configPath: string;
  buildOnPush: boolean;
  image: string;
  /** "": the configuration of the source says it. */
  engine: "" | "file" | "postgres" | "memory" | "aegra";
  /** "": this server, unless there are labels. */
  listenerId: string;
  /** The server chooses a listener with these labels. null: `listenerId` says where. */
  labels: Readonly<Record<string, string>> | null;
  /** "": the listener's own choice. */
  namespace: string;
  files: SourceFile[];
  variables: Secret[];
  /** Variable groups that the deployment uses. The last one wins. */
  groupIds: string[];
  /** Names that the source asks for. They are left out while they have no value. */
  asked: string[];
  /** Names whose values a reload dropped. */
  emptied: string[];
  /** Settings of the deployment that it copies, for which the form has no fields. null: it copies none. */
  copied: Copied | null;
}

type Copied = Pick<SourceConfig, "install_command" | "build_command" | "resource_spec"> & {
  secret_references: SecretReference[] | null;
};

export const emptyDraft: Draft = {
  source: "internal_template",
  name: "",
  type: "dev",
  templateId: "",
  integrationId: "",
  repoUrl: "",
  ref: "main",
  configPath: "langgraph.json",
  buildOnPush: false,
  image: "",
  engine: "",
  listenerId: "",
  labels: null,
  namespace: "",
  files: [],
  variables: [],
  groupIds: [],
  asked: [],
  emptied: [],
  copied: null,
};

export type Problems = Partial<Record<keyof Draft, string>>;

/** Returns what the server would reject, by its own rules and in its own words. Only the server knows who may use local paths. */
export function problemsOf(draft: Draft): Problems {
  const { source } = draft;
  const isCode = source === "github" || source === "internal_source";
  const found: Record<string, string | null> = {
    name: draft.name === "" ? "Enter a name." : problemFrom(() => checkDeploymentName(draft.name)),
    variables: lostValues(draft) ?? problemFrom(() => checkVariableNames(sentVariables(draft), source)),
    ...(source === "internal_template" && { templateId: draft.templateId === "" ? "Choose a template." : null }),
    ...(source === "github" && {
      repoUrl: problemFrom(() => checkRepoUrl(draft.repoUrl, { allowLocalSources: true })),
      ref: problemFrom(() => checkRef("repo_ref", draft.ref)),
    }),
    ...(source === "external_docker" && { image: problemFrom(() => checkImageUri(draft.image)) }),
    ...(source === "internal_source" && { files: draft.files.length === 0 ? "Choose a folder." : null }),
    ...(isCode && { configPath: problemFrom(() => checkConfigPath(draft.configPath)) }),
  };
  return Object.fromEntries(Object.entries(found).filter(([, problem]) => problem !== null));
}

/** Values are not stored, so that after a reload the user types them again or removes the row. */
function lostValues({ variables, emptied }: Draft): string | undefined {
  const lost = variables.filter(({ name, value }) => value === "" && emptied.includes(name)).map(({ name }) => name);
  if (lost.length === 0) return undefined;
  return `Values are not kept when the page is loaded again. Enter ${lost.join(", ")} again, or remove the row.`;
}

const sentVariables = ({ variables, asked }: Draft): Secret[] =>
  variables.filter((one) => isNamed(one) && !(one.value === "" && asked.includes(one.name)));

const isNamed = ({ name, value }: Secret) => name !== "" || value !== "";

/** Returns the request body that creates the deployment. */
export function bodyOf(draft: Draft): CreateDeployment {
  const body = typedBodyOf(draft);
  if (draft.copied === null) return body;
  const { secret_references, resource_spec, ...settings } = draft.copied;
  // The type of a deployment that this server builds defines its sizes, so the server refuses a spec beside it.
  const sizes = isHere(draft) && draft.source !== "external_docker" ? {} : { resource_spec };
  return { ...body, source_config: { ...settings, ...sizes, ...body.source_config }, secret_references };
}

function typedBodyOf(draft: Draft): CreateDeployment {
  const { source, name } = draft;
  const secrets = sentVariables(draft);
  const { groupIds } = draft;
  const shared = {
    ...{ name, source },
    ...(secrets.length > 0 && { secrets }),
    ...(groupIds.length > 0 && { variable_group_ids: groupIds }),
  };
  if (source === "external_docker")
    return { ...shared, source_config: placementOf(draft), source_revision_config: { image_uri: draft.image } };
  const place = isHere(draft) ? { deployment_type: draft.type } : placementOf(draft);
  const settings = { ...place, ...engineOf(draft) };
  if (source === "internal_template") {
    const config = { template_id: draft.templateId, ...settings };
    return { ...shared, source_config: config, source_revision_config: {} };
  }
  if (source === "internal_source") return { ...shared, source_config: settings, source_revision_config: {} };
  const { integrationId, repoUrl, buildOnPush } = draft;
  const readBy = integrationId === "" ? {} : { integration_id: integrationId };
  return {
    ...shared,
    source_config: { ...readBy, repo_url: repoUrl, build_on_push: buildOnPush, ...settings },
    source_revision_config: { repo_ref: draft.ref, langgraph_config_path: draft.configPath },
  };
}

const engineOf = ({ engine }: Draft) => (engine === "" ? {} : { engine });

/** Whether this server runs the deployment. */
export const isHere = ({ listenerId, labels }: Draft): boolean => listenerId === "" && labels === null;

function placementOf(draft: Draft) {
  if (isHere(draft)) return {};
  const { listenerId, labels, namespace } = draft;
  const chosen = labels === null ? { listener_id: listenerId } : { listener_selector: labels };
  return { ...chosen, ...(namespace !== "" && { listener_config: { k8s_namespace: namespace } }) };
}
