import { writeFile } from "node:fs/promises";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Client } from "../../client/client.ts";
import type { Deployment, PatchDeployment, Secret } from "../../contract/deployments/deployment.ts";
import { findByName, findDeployment } from "../deployments/find-deployment.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { type Declared, declaredVariables, readDeclared, usualFile, writeDeclared } from "./desired-file.ts";

interface FileOption {
  file?: string;
}

interface ApplyOptions extends FileOption {
  prune?: string[];
  dryRun?: boolean;
  /** Commander's form of `--no-wait`. */
  wait: boolean;
}

/** What must happen to one deployment. Values of variables are never shown. */
interface Change {
  name: string;
  action: "create" | "change" | "delete";
  fields: { field: string; from: unknown; to: unknown }[];
  variables: { set: string[]; removed: string[] };
}

type Act = (client: Client, signal: AbortSignal) => Promise<Deployment | undefined>;

/** Shows what `apply` would do. Exit code 2: there are changes. */
export async function plan(session: Session, _: unknown, options: FileOption & { prune?: string[] }): Promise<void> {
  const changes = (await planned(session, options)).map(({ change }) => change);
  session.answer({ changes }, () => shown(changes));
  if (changes.length === 0) return session.terminal.say("No changes.");
  throw new CliFailure(`${changes.length} of the deployments would change.`, {
    exitCode: exitCodes.cancelled,
    isNotice: true,
    hints: ["Make it so: pierhead apply"],
  });
}

/** Creates and changes the deployments of a file until they are as it declares. Does nothing where they already are. */
export async function apply(session: Session, _: unknown, options: ApplyOptions): Promise<void> {
  const { terminal, signal } = session;
  const all = await planned(session, options);
  const changes = all.map(({ change }) => change);
  if (options.dryRun === true)
    return session.answer({ changes, applied: false }, () => shown(changes) ?? "No changes.");
  const client = await session.client();
  const begun: Deployment[] = [];
  for (const { change, act } of all) {
    terminal.say(`${verbs[change.action]} ${harmless(change.name)}`);
    const made = await act(client, signal);
    if (made !== undefined) begun.push(made);
  }
  const failed = options.wait ? await waitForAll(client, begun, signal) : [];
  session.answer({ changes, applied: true, failed }, () => shown(changes) ?? "No changes.");
  if (failed.length === 0) return;
  throw new CliFailure(`The rollout of ${failed.join(", ")} failed.`, {
    hints: failed.map((name) => `See why: pierhead status ${name}`),
  });
}

/** Writes deployments into a file. Values that the file does not already show become references to the environment. */
export async function pull(session: Session, names: string[], options: FileOption): Promise<void> {
  const file = options.file ?? usualFile;
  const target = path.resolve(session.context.cwd, file);
  const before = names.length === 0 ? await readDeclared(session, file) : {};
  const wanted = names.length === 0 ? Object.keys(before) : names;
  const found: Record<string, Declared> = {};
  for (const name of wanted) {
    const deployment = await findDeployment(session, name);
    found[deployment.name] = declarationOf(deployment, before[name]);
  }
  await writeFile(target, writeDeclared(found), names.length === 0 ? {} : { flag: "wx" }).catch((error) => {
    if (error.code !== "EEXIST") throw error;
    throw new CliFailure(`${file} exists.`, { hints: ["Update it: pierhead pull", "Choose another: --file FILE"] });
  });
  session.answer({ file, deployments: Object.keys(found) }, () => file);
}

const verbs = { create: "Creating", change: "Changing", delete: "Deleting" } as const;

async function planned(session: Session, { file = usualFile, prune = [] }: FileOption & { prune?: string[] }) {
  const declared = await readDeclared(session, file);
  const client = await session.client();
  const all: { change: Change; act: Act }[] = [];
  for (const [name, wanted] of Object.entries(declared)) {
    const variables = declaredVariables(session, name, wanted);
    const named = await findByName(client, name, session.signal);
    // Read alone, it has the tag by which a change is refused if someone else was faster.
    const current = named && (await client.getDeployment({ deployment_id: named.id }, { signal: session.signal }));
    const next = current === undefined ? created(name, wanted, variables ?? []) : changed(current, wanted, variables);
    if (next !== undefined) all.push(next);
  }
  for (const name of prune) {
    if (name in declared) throw new CliFailure(`${name} is in ${file}, so it cannot be pruned.`);
    const current = await findByName(client, name, session.signal);
    if (current === undefined) continue;
    const change: Change = { name, action: "delete", fields: [], variables: { set: [], removed: [] } };
    const act: Act = async (api, signal) => {
      await api.deleteDeployment({ deployment_id: current.id }, { signal });
      return undefined;
    };
    all.push({ change, act });
  }
  return all;
}

/** Returns the settings of a declaration in the API's form. */
function settingsOf(wanted: Declared) {
  const given = <T extends object>(fields: T) =>
    Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
  return {
    source_config: given({
      repo_url: wanted.repo_url,
      build_on_push: wanted.build_on_push,
      template_id: wanted.template,
      deployment_type: wanted.type,
      install_command: wanted.install_command,
      build_command: wanted.build_command,
      custom_url: wanted.custom_url,
      resource_spec: wanted.resources,
    }),
    source_revision_config: given({
      repo_ref: wanted.ref,
      langgraph_config_path: wanted.config_path,
      image_uri: wanted.image,
    }),
  };
}

function created(name: string, wanted: Declared, secrets: Secret[]): { change: Change; act: Act } {
  const { source_config, source_revision_config } = settingsOf(wanted);
  const isRepository = wanted.source === "github";
  const body = {
    name,
    source: wanted.source,
    source_config: isRepository ? { build_on_push: false, ...source_config } : source_config,
    source_revision_config: isRepository
      ? { repo_ref: "main", langgraph_config_path: "langgraph.json", ...source_revision_config }
      : source_revision_config,
    secrets,
  };
  const fields = Object.entries({ ...body.source_config, ...body.source_revision_config });
  return {
    change: {
      name,
      action: "create",
      fields: fields.map(([field, to]) => ({ field, from: null, to })),
      variables: { set: secrets.map((one) => one.name), removed: [] },
    },
    act: (client, signal) => client.createDeployment({ body }, { signal }),
  };
}

function changed(current: Deployment, wanted: Declared, variables: Secret[] | undefined) {
  const { name, id } = current;
  if (current.source !== wanted.source) {
    throw new CliFailure(`${name} has the source ${current.source}, which cannot be changed to ${wanted.source}.`);
  }
  const { source_config, source_revision_config } = settingsOf(wanted);
  const config = differing(current.source_config, source_config);
  const code = differing(current.source_revision_config, source_revision_config);
  const present = new Map(current.secrets.map((one) => [one.name, one.value]));
  const set = (variables ?? []).filter((one) => present.get(one.name) !== one.value);
  const wantedNames = new Set(variables?.map((one) => one.name));
  const removed = variables === undefined ? [] : [...present.keys()].filter((one) => !wantedNames.has(one));
  const fields = [...config, ...code];
  if (fields.length === 0 && set.length === 0 && removed.length === 0) return undefined;
  const change: Change = { name, action: "change", fields, variables: { set: set.map((one) => one.name), removed } };
  const act: Act = async (client, signal) => {
    const only = (all: typeof fields) => Object.fromEntries(all.map(({ field, to }) => [field, to]));
    const body: PatchDeployment = {
      ...(config.length > 0 && { source_config: only(config) }),
      ...(code.length > 0 && { source_revision_config: only(code) }),
      // An empty list leaves the variables as they are, so the last one is removed by the call below.
      ...((set.length > 0 || removed.length > 0) && { secrets: variables ?? [] }),
    };
    if (fields.length === 0) {
      return client.changeVariables({ deployment_id: id, body: { set, remove: removed } }, { signal });
    }
    const patched = await client.patchDeployment({ deployment_id: id, body }, { signal, ifUnchanged: current });
    if (removed.length === 0 || variables?.length !== 0) return patched;
    return client.changeVariables({ deployment_id: id, body: { remove: removed } }, { signal });
  };
  return { change, act };
}

/** Returns the fields that differ. Of a resource spec only the given ones count, because responses fill in the others. */
function differing(current: object, wanted: object): Change["fields"] {
  const before = current as Record<string, unknown>;
  return Object.entries(wanted).flatMap(([field, to]) => {
    const from = before[field] ?? null;
    const isSame =
      field === "resource_spec" && from !== null
        ? Object.entries(to as object).every(([key, value]) =>
            isDeepStrictEqual((from as Record<string, unknown>)[key], value),
          )
        : isDeepStrictEqual(from, to);
    return isSame ? [] : [{ field, from, to }];
  });
}

function declarationOf(
  { source, source_config: config, source_revision_config: code, secrets }: Deployment,
  before?: Declared,
) {
  if (source === "internal_source") {
    throw new CliFailure("A deployment of an uploaded directory cannot be declared in a file.", {
      hints: ["Deploy it from a repository or an image instead."],
    });
  }
  const isPlain = (name: string) => before?.variables?.[name] !== undefined;
  const plain = secrets.filter(({ name }) => isPlain(name)).map(({ name, value }) => [name, value]);
  const hidden = secrets
    .filter(({ name }) => !isPlain(name))
    .map(({ name }) => [name, before?.secrets?.[name] ?? name]);
  const all: Record<string, unknown> = {
    source,
    repo_url: config.repo_url,
    ref: source === "github" ? code.repo_ref : null,
    config_path: source === "github" ? code.langgraph_config_path : null,
    build_on_push: source === "github" ? config.build_on_push : null,
    template: config.template_id,
    image: code.image_uri,
    type: source === "external_docker" ? null : config.deployment_type,
    install_command: config.install_command,
    build_command: config.build_command,
    custom_url: source === "external_docker" ? config.custom_url : null,
    resources: source === "external_docker" ? (before?.resources ?? config.resource_spec) : null,
    variables: plain.length > 0 ? Object.fromEntries(plain) : null,
    secrets: hidden.length > 0 ? Object.fromEntries(hidden) : null,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) as unknown as Declared;
}

async function waitForAll(client: Client, begun: readonly Deployment[], signal: AbortSignal): Promise<string[]> {
  const ended = begun.map(async ({ id, name, latest_revision_id }) => {
    if (latest_revision_id === null) return undefined;
    const ids = { deployment_id: id, revision_id: latest_revision_id };
    const { status } = await client.waitForRevision(ids, { signal });
    return status === "DEPLOYED" ? undefined : name;
  });
  return (await Promise.all(ended)).filter((name) => name !== undefined);
}

function shown(changes: readonly Change[]): string | undefined {
  if (changes.length === 0) return undefined;
  const signs = { create: "+", change: "~", delete: "-" } as const;
  const lines = changes.flatMap(({ name, action, fields, variables }) => [
    `${signs[action]} ${name}`,
    ...fields.map(({ field, from, to }) =>
      from === null
        ? `    ${field}: ${JSON.stringify(to)}`
        : `    ${field}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}`,
    ),
    ...variables.set.map((one) => `    variable ${one}: set`),
    ...variables.removed.map((one) => `    variable ${one}: removed`),
  ]);
  return lines.map(harmless).join("\n");
}
