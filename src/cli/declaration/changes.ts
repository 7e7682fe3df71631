import { isDeepStrictEqual } from "node:util";
import type { CallOptions, Client } from "../../client/client.ts";
import type { Deployment, PatchDeployment, Secret } from "../../contract/deployments/deployment.ts";
import type { ResourceSpec } from "../../contract/deployments/resource-spec.ts";
import type { Listener } from "../../contract/listeners/listener.ts";
import { normalizeRef } from "../../domain/refs.ts";
import { withRoundedCores } from "../../domain/resource-rules.ts";
import { findByName } from "../deployments/find-deployment.ts";
import { checkPlacement, type Placement, placementOf } from "../deployments/find-listener.ts";
import { givenSizes } from "../deployments/given-sizes.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { type Change, differing } from "./change.ts";
import { alertSteps } from "./declared-alerts.ts";
import { groupIdsOf, groupsFor, withGroups } from "./declared-groups.ts";
import { listenerSteps } from "./declared-listeners.ts";
import { type Declared, declaredVariables, readDeclared, usualFile } from "./desired-file.ts";
import { wrong } from "./read-object.ts";
import { checkReadable } from "./readable.ts";
import type { Step } from "./step.ts";
import { type FileTag, findFileTag, withTag } from "./tag.ts";

/** What `apply` would do. */
export interface Comparison {
  steps: Step[];
  /** Deployments that are already as the file declares. */
  unchanged: Deployment[];
  /** Names of the deployments with the tag of the file that the file no longer declares, and that nothing deletes. */
  left: string[];
}

/** Compares a file with the server. `prune` names deployments to delete; `true`: those with the tag of the file. */
export async function compare(
  session: Session,
  { file = usualFile, prune = [] }: { file?: string; prune?: string[] | true },
): Promise<Comparison> {
  const { tag: tagText, deployments: declared, alerts = {}, listeners = {} } = await readDeclared(session, file);
  const client = await session.client();
  const tag = tagText === undefined ? undefined : await findFileTag(client, tagText, session.signal);
  const { steps: listenerChanges, missing } = await listenerSteps(session, listeners);
  // A deployment may be placed on a listener that the same file creates.
  const steps: Step[] = [...listenerChanges];
  const labelsOf = (one: Listener) => listeners[one.compute_id]?.labels ?? one.labels;
  const groups = await groupsFor(session, declared);
  const unchanged: Deployment[] = [];
  for (const [name, wanted] of Object.entries(declared)) {
    const variables = declaredVariables(session, name, wanted);
    const current = await findByName(client, name, session.signal);
    if (current !== undefined && variables !== undefined) await checkReadable(session, current);
    if (current !== undefined) await checkPlacement(client, current, { ...placedBy(wanted), labelsOf }, session.signal);
    const ids = groupIdsOf(name, wanted, groups);
    const own =
      current === undefined
        ? created(
            name,
            wanted,
            { secrets: variables ?? [], groupIds: ids ?? [] },
            await placing(client, wanted, missing, session.signal),
          )
        : changed(current, wanted, variables);
    const change =
      current === undefined || ids === undefined
        ? own
        : await withGroups(client, { current, step: own, wanted, ids }, session.signal);
    const step =
      tag === undefined ? change : await withTag(client, { name, current, step: change, tag }, session.signal);
    if (step !== undefined) steps.push(step);
    else if (current !== undefined) unchanged.push(current);
  }
  steps.push(...(await alertSteps(session, alerts)));
  return { unchanged, ...(await withPruned(session, { file, declared, prune, tag, steps })) };
}

/** Resolves the placement of a new deployment now, or after its listener was created. */
async function placing(
  client: Client,
  wanted: Declared,
  missing: readonly string[],
  signal: AbortSignal,
): Promise<Placing> {
  if (wanted.listener !== undefined && missing.includes(wanted.listener)) {
    const { listener, namespace } = wanted;
    const shown = { listener, ...(namespace !== undefined && { namespace }) };
    return { shown, find: (calls, ending) => placementOf(calls, placedBy(wanted), ending) };
  }
  const placement = await placementOf(client, placedBy(wanted), signal);
  return { shown: placement, find: async () => placement };
}

interface Placing {
  /** Placement as the plan prints it. */
  shown: object;
  find(client: Client, signal: AbortSignal): Promise<Placement>;
}

const placedBy = ({ listener, where, namespace }: Declared) => ({
  ...(where !== undefined && { where: Object.entries(where).map(([key, value]) => `${key}=${value}`) }),
  ...(listener !== undefined && { listener }),
  ...(namespace !== undefined && { namespace }),
});

/** Adds the deletions that `--prune` asks for. */
async function withPruned(
  session: Session,
  {
    file,
    declared,
    prune,
    tag,
    steps,
  }: {
    file: string;
    declared: Record<string, Declared>;
    prune: readonly string[] | true;
    tag: FileTag | undefined;
    steps: Step[];
  },
): Promise<Pick<Comparison, "steps" | "left">> {
  const strays = [...(tag?.tagged.values() ?? [])].filter(({ name }) => !Object.hasOwn(declared, name));
  if (prune === true) {
    if (tag !== undefined) return { steps: [...steps, ...strays.map(deleted)], left: [] };
    throw wrong(
      `--prune without names deletes the deployments with the tag of ${file}, but it has none.`,
      "Add one at the top of the file, such as: tag: repository=shop",
      "Or name the deployments: --prune NAME...",
    );
  }
  const doomed: Step[] = [];
  const client = await session.client();
  for (const name of prune) {
    if (Object.hasOwn(declared, name)) throw wrong(`${name} is in ${file}, so it cannot be pruned.`);
    const current = await findByName(client, name, session.signal);
    if (current !== undefined) doomed.push(deleted(current));
  }
  const left = strays.map(({ name }) => name).filter((name) => !prune.includes(name));
  return { steps: [...steps, ...doomed], left };
}

function deleted({ id, name }: Deployment): Step {
  return {
    change: { name, action: "delete", fields: [], variables: { set: [], removed: [] } },
    act: async (client, signal) => {
      await client.deleteDeployment({ deployment_id: id }, { signal });
      return undefined;
    },
  };
}

/** Returns the settings of a declaration in the API's form, as the API stores them. Null means the same as absent. */
function settingsOf(wanted: Declared) {
  const given = <T extends object>(fields: T) =>
    Object.fromEntries(
      Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
    ) as Partial<T>;
  const { ref, resources } = wanted;
  return {
    source_config: given({
      repo_url: wanted.repo_url,
      integration_id: wanted.integration_id,
      build_on_push: wanted.build_on_push,
      template_id: wanted.template,
      deployment_type: wanted.type,
      install_command: wanted.install_command,
      build_command: wanted.build_command,
      engine: wanted.engine,
      custom_url: wanted.custom_url,
      resource_spec: resources && withRoundedCores(given(resources)),
    }),
    source_revision_config: given({
      repo_ref: ref && normalizeRef(ref),
      langgraph_config_path: wanted.config_path,
      image_uri: wanted.image,
    }),
  };
}

function created(
  name: string,
  wanted: Declared,
  { secrets, groupIds }: { secrets: Secret[]; groupIds: string[] },
  placing: Placing,
): Step {
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
    ...(groupIds.length > 0 && { variable_group_ids: groupIds }),
  };
  const fields = Object.entries({
    ...body.source_config,
    ...placing.shown,
    ...body.source_revision_config,
    ...(groupIds.length > 0 && { variable_groups: wanted.variable_groups }),
  });
  return {
    change: {
      name,
      action: "create",
      fields: fields.map(([field, to]) => ({ field, from: null, to })),
      variables: { set: secrets.map((one) => one.name), removed: [] },
    },
    async act(client, signal) {
      const placement = await placing.find(client, signal);
      const placed = { ...body, source_config: { ...body.source_config, ...placement } };
      return client.createDeployment({ body: placed }, { signal });
    },
  };
}

function changed(current: Deployment, wanted: Declared, variables: Secret[] | undefined): Step | undefined {
  checkFixed(current, wanted);
  const { name, id } = current;
  const { source_config, source_revision_config } = settingsOf(wanted);
  const engine = current.source_config.engine ?? "default";
  const config = differing({ ...current.source_config, engine }, source_config);
  const code = differing(current.source_revision_config, source_revision_config);
  const present = new Map(current.secrets.map((one) => [one.name, one.value]));
  const set = (variables ?? []).filter((one) => present.get(one.name) !== one.value);
  const wantedNames = new Set(variables?.map((one) => one.name));
  const removed = variables === undefined ? [] : [...present.keys()].filter((one) => !wantedNames.has(one));
  const fields = [...config, ...code];
  if (fields.length === 0 && set.length === 0 && removed.length === 0) return undefined;
  const change: Change = { name, action: "change", fields, variables: { set: set.map((one) => one.name), removed } };
  const act: Step["act"] = async (client, signal) => {
    const asRead = (part: typeof settingsIn, send: (call: CallOptions) => Promise<Deployment>) =>
      client.changeAsRead(
        { deployment_id: id },
        (now, call) => {
          if (isDeepStrictEqual(part(now), part(current))) return send(call);
          throw new CliFailure(`${name} was changed by someone else meanwhile.`, {
            hints: ["See what is left to do: pierhead plan"],
          });
        },
        signal,
      );
    if (fields.length === 0) {
      const body = { set, remove: removed };
      return asRead(settingsIn, (call) => client.changeVariables({ deployment_id: id, body }, call));
    }
    const isResized = config.some(({ field }) => field === "resource_spec");
    const given = isResized ? await givenSizes(client, current, signal) : null;
    const body: PatchDeployment = {
      ...settingsPatch({ current, given }, config, code),
      // An empty list leaves the variables as they are, so the last one is removed by the call below.
      ...((set.length > 0 || removed.length > 0) && { secrets: variables ?? [] }),
    };
    const patched = await asRead(settingsIn, (call) => client.patchDeployment({ deployment_id: id, body }, call));
    if (removed.length === 0 || variables?.length !== 0) return patched;
    const rest = { deployment_id: id, body: { remove: removed } };
    return asRead(
      ({ secrets }) => ({ secrets }),
      (call) => client.changeVariables(rest, call),
    );
  };
  return { change, act };
}

/** Refuses changes of settings that are fixed at creation, so that `plan` reports them. */
function checkFixed({ name, source, source_config: config }: Deployment, wanted: Declared): void {
  const fixed = [
    ["source", source, wanted.source],
    ["type", config.deployment_type, wanted.type],
    ["template", config.template_id, wanted.template],
    ["integration_id", config.integration_id, wanted.integration_id],
  ] as const;
  for (const [field, from, to] of fixed) {
    if (to === undefined || to === from) continue;
    throw new CliFailure(`${name} has the ${field} ${from ?? "none"}, which cannot be changed to ${to}.`);
  }
}

/** Returns the settings that users change, without those that a rollout changes. */
function settingsIn({ source_config, source_revision_config, secrets }: Deployment): object {
  const { repo_commit_sha: _, deepagents_version: __, tracked_packages: ___, ...code } = source_revision_config;
  return { source_config, code, secrets };
}

/** @param given the sizes that the deployment was given, without those that the server derives. */
function settingsPatch(
  { current, given }: { current: Deployment; given: ResourceSpec | null },
  config: Change["fields"],
  code: Change["fields"],
): PatchDeployment {
  const only = (all: Change["fields"]) => Object.fromEntries(all.map(({ field, to }) => [field, to]));
  const settings = only(config);
  return {
    source_config: {
      ...settings,
      // The API replaces the whole spec, here that which was given.
      ...("resource_spec" in settings && {
        resource_spec: { ...given, ...(settings["resource_spec"] as object) },
      }),
    },
    source_revision_config: {
      // A repository alone creates no revision, so the code would stay that of the old one.
      ...("repo_url" in settings && { repo_ref: current.source_revision_config.repo_ref }),
      ...only(code),
    },
  };
}
