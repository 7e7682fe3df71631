import { writeFile } from "node:fs/promises";
import path from "node:path";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { ResourceSpec } from "../../contract/deployments/resource-spec.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { givenSizes } from "../deployments/given-sizes.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { shellWord } from "../terminal/text.ts";
import { pulledAlerts } from "./declared-alerts.ts";
import { groupNamesOf } from "./declared-groups.ts";
import { pulledListeners } from "./declared-listeners.ts";
import { type Declared, type DeclaredFile, readDeclared, usualFile, writeDeclared } from "./desired-file.ts";
import { checkReadable } from "./readable.ts";

/** Writes deployments into a file. Values that the file does not already show become references to the environment. */
export async function pull(session: Session, names: string[], options: { file?: string }): Promise<void> {
  const file = options.file ?? usualFile;
  const target = path.resolve(session.context.cwd, file);
  const {
    tag,
    deployments: before,
    alerts = {},
    listeners = {},
  }: DeclaredFile = names.length === 0 ? await readDeclared(session, file) : { deployments: {} };
  const wanted = names.length === 0 ? Object.keys(before) : names;
  const found: Record<string, Declared> = {};
  for (const name of wanted) {
    const deployment = await findDeployment(session, name);
    if (deployment.source === "internal_source") {
      throw uploadedFailure(
        deployment.name,
        wanted.filter((one) => one !== name),
      );
    }
    if (before[name]?.variables !== undefined) await checkReadable(session, deployment);
    // A file that chooses by labels keeps doing so.
    const listener = before[name]?.where === undefined ? await listenerOf(session, deployment) : null;
    const groups = await groupsOf(session, deployment, before[name]);
    const given = await givenSizes(await session.client(), deployment, session.signal);
    found[deployment.name] = declarationOf(deployment, { listener, groups, given }, before[name]);
  }
  await writeFile(
    target,
    writeDeclared({
      ...(tag !== undefined && { tag }),
      ...{
        deployments: found,
        ...(await pulledAlerts(session, alerts)),
        ...(await pulledListeners(session, listeners)),
      },
    }),
    names.length === 0 ? {} : { flag: "wx" },
  ).catch((error) => {
    if (error.code !== "EEXIST") throw error;
    throw new CliFailure(`${file} exists.`, { hints: ["Update it: pierhead pull", "Choose another: --file FILE"] });
  });
  session.answer({ file, deployments: Object.keys(found) }, () => file);
}

/** A file cannot refer to the content of a directory on one user's machine. */
function uploadedFailure(name: string, others: readonly string[]): CliFailure {
  return new CliFailure(`${name} was deployed from a directory, which a file cannot declare.`, {
    hints: [
      ...(others.length === 0 ? [] : [`Leave it out: pierhead pull ${others.map(shellWord).join(" ")}`]),
      `Deploy it under a new name from a repository or an image, and pull that: pierhead deploy URL --name NEW-NAME`,
    ],
  });
}

/** Returns the name of the listener that runs a deployment; null: the server itself does. */
async function listenerOf(session: Session, { source_config: config }: Deployment): Promise<string | null> {
  if (config.listener_id === null) return null;
  const client = await session.client();
  return (await client.getListener({ listener_id: config.listener_id }, { signal: session.signal })).compute_id;
}

/** Returns the names of groups for the file; null: the file should not have `variable_groups`. */
async function groupsOf(session: Session, deployment: Deployment, before?: Declared): Promise<string[] | null> {
  if (before !== undefined && before.variable_groups === undefined) return null;
  const names = await groupNamesOf(await session.client(), deployment, session.signal);
  return names.length === 0 && before === undefined ? null : names;
}

function declarationOf(
  { source, source_config: config, source_revision_config: code, secrets }: Deployment,
  { listener, groups, given }: { listener: string | null; groups: string[] | null; given: ResourceSpec | null },
  before?: Declared,
) {
  // A deployment that the file declares without variables keeps those it has.
  const hasVariables = before === undefined || before.variables !== undefined || before.secrets !== undefined;
  // A variable may be called `constructor`, which every object has.
  const isPlain = (name: string) => Object.hasOwn(before?.variables ?? {}, name);
  const secretOf = (name: string) => (Object.hasOwn(before?.secrets ?? {}, name) ? before?.secrets?.[name] : name);
  const plain = secrets.filter(({ name }) => isPlain(name)).map(({ name, value }) => [name, value]);
  const hidden = secrets.filter(({ name }) => !isPlain(name)).map(({ name }) => [name, secretOf(name)]);
  // Without the key the file would no longer declare that there are none.
  const isEmptied = before !== undefined && hasVariables && secrets.length === 0;
  const hasSpec = source === "external_docker" || config.listener_id !== null;
  const all: Record<string, unknown> = {
    source,
    repo_url: config.repo_url,
    integration_id: config.integration_id,
    ref: source === "github" ? code.repo_ref : null,
    config_path: source === "github" ? code.langgraph_config_path : null,
    build_on_push: source === "github" ? config.build_on_push : null,
    template: config.template_id,
    image: code.image_uri,
    type: hasSpec ? null : config.deployment_type,
    install_command: config.install_command,
    build_command: config.build_command,
    engine: config.engine,
    custom_url: source === "external_docker" ? config.custom_url : null,
    listener,
    where: before?.where ?? null,
    namespace: config.listener_config?.k8s_namespace ?? null,
    resources: hasSpec ? resourcesOf({ given, effective: config.resource_spec }, before?.resources) : null,
    variable_groups: groups,
    variables: plain.length > 0 || isEmptied ? Object.fromEntries(plain) : null,
    secrets: hidden.length > 0 && hasVariables ? Object.fromEntries(hidden) : null,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) as unknown as Declared;
}

/** A file that declares resources keeps exactly those. A new one gets what the deployment was given, without defaults. */
function resourcesOf(
  { given, effective }: Record<"given" | "effective", ResourceSpec | null>,
  declared: object | undefined,
): object | null {
  const isKept = ([field, value]: [string, unknown]) => (declared === undefined ? value !== null : field in declared);
  const kept = Object.entries((declared === undefined ? given : effective) ?? {}).filter(isKept);
  return kept.length === 0 && declared === undefined ? null : Object.fromEntries(kept);
}
