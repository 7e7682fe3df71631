import { createHash } from "node:crypto";
import { type ApiServer, fieldManager, KubeError } from "../api/api-server.ts";
import { childKinds } from "../api/kinds.ts";
import type { LiveObject, Manifest } from "../api/manifest.ts";
import type { ClusterContext, ClusterTraits } from "../cluster-context.ts";
import { growStorage, keepLargerDisks } from "../data/grow-storage.ts";
import { componentLabel, driftAnnotation, pausedAnnotation, secretNameOf } from "../render/names.ts";
import { hasOwnDatabase, render, selectorText } from "../render/render.ts";
import { type DatabaseMode, UnusableWorkload, type Workload } from "../workload.ts";
import {
  type AnchorData,
  applyAnchor,
  ownerOf,
  readAnchor,
  refuseForeign,
  refuseOlder,
  renewAnchor,
} from "./anchor.ts";
import { checkWorkload } from "./check-workload.ts";
import { createSecrets } from "./create-secrets.ts";
import { findDrift, type WrittenObjects } from "./drift.ts";

export interface Applied {
  /** What must be there before the agent can start; null: everything was applied. */
  waitingFor: string | null;
  /** What somebody has changed and wants to keep; null: everything is as it should be, or was made so. */
  held: string[] | null;
}

/**
 * Makes the objects of a deployment so. May be called again at any time; what is as it should be is not touched. What was
 * written is noted in `written`, also when it fails later.
 * @throws UnusableWorkload in words for the user; Superseded when a newer generation or session was here; KubeError.
 */
export async function applyWorkload(
  context: ClusterContext,
  workload: Workload,
  written: WrittenObjects,
  signal: AbortSignal,
): Promise<Applied> {
  const { api, traits, policy } = context;
  checkWorkload(workload, policy);
  const namespace = workload.cluster.namespace as string;
  let before = await api.get<LiveObject>("ConfigMap", namespace, workload.slug, signal);
  if (before !== null) refuseForeign(before, workload);
  const known = before === null ? null : readAnchor(before);
  const annotations = before?.metadata.annotations ?? {};
  if (annotations[pausedAnnotation] === "true") return { waitingFor: null, held: [] };
  if (before?.metadata.deletionTimestamp !== undefined) {
    refuseOlder(before, workload);
    before = await renewAnchor(api, before, signal);
  }
  const database = known?.database ?? (hasOwnDatabase(workload) ? "external" : chooseDatabase(workload, traits));
  const { data: rendered, rest } = render(workload, { traits, policy, database });
  const data = workload.isServing ? await keepLargerDisks(api, rendered, signal) : rendered;
  const hash = hashOf([...data, ...rest]);
  const isChanged = known?.hash !== hash;
  const ownedBy = (anchor: LiveObject) => (manifest: Manifest) => ({
    ...manifest,
    metadata: { ...manifest.metadata, ownerReferences: [ownerOf(anchor)] },
  });
  if (before !== null && !isChanged && annotations[driftAnnotation] === "warn") {
    const held = await findDrift(api, [...data, ...rest].map(ownedBy(before)), signal);
    return { waitingFor: null, held: held.length > 0 ? held : null };
  }
  const secrets = [...new Set([...secretsIn(known), secretNameOf(workload)])];
  const anchor = await applyAnchor(context, workload, before, { database, hash: known?.hash ?? "", secrets }, signal);
  written.record(anchor);
  const owned = ownedBy(anchor);
  if (isChanged) await dryRunAll(api, [...data, ...rest].map(owned), signal);
  await createSecrets(api, workload, database, owned, signal);
  const put = async (manifests: Manifest[]) => {
    for (const manifest of manifests) {
      written.record(await writeObject(api, owned(manifest), leastReplicas(workload, manifest), signal));
    }
  };
  await put(data);
  const waitingFor = isFirst(known) ? await unreadyData(api, data, signal) : null;
  if (waitingFor !== null) return { waitingFor, held: null };
  await put(rest);
  if (known !== null) await prune(context, workload, [...data, ...rest], signal);
  const noted = { database, hash, secrets: await usedSecrets(api, workload, secrets, signal) };
  await applyAnchor(context, workload, anchor, noted, signal);
  return { waitingFor: null, held: null };
}

const isFirst = (known: AnchorData | null) => known === null || known.hash === "";

function chooseDatabase({ cluster }: Workload, { hasCnpg }: ClusterTraits): DatabaseMode {
  return hasCnpg && cluster.profile === "production" ? "cnpg" : "plain";
}

const secretsIn = (known: AnchorData | null): string[] => (known === null ? [] : JSON.parse(known.secrets));

/** Everything is tried before anything is changed: a refusal must not leave half of a revision behind. */
async function dryRunAll(api: ApiServer, manifests: Manifest[], signal: AbortSignal): Promise<void> {
  for (const manifest of manifests) {
    try {
      await api.apply(manifest, signal, { dryRun: true });
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      if (
        error.status === 422 &&
        (await api.get(manifest.kind, manifest.metadata.namespace, manifest.metadata.name, signal))
      ) {
        // An existing object may need one of the other ways of `writeObject`.
        continue;
      }
      if (error.status !== 422 && error.status !== 400) throw error;
      await applyOrRefuse(api, manifest, signal, { dryRun: true });
    }
  }
}

/**
 * For what is not there after it was refused: a change of what was just going away may have been refused, as that of a
 * StatefulSet that is made anew with a larger disk. What cannot be made either is.
 * @throws UnusableWorkload
 */
async function applyOrRefuse(
  api: ApiServer,
  manifest: Manifest,
  signal: AbortSignal,
  options: { dryRun?: boolean } = {},
) {
  try {
    return (await api.apply(manifest, signal, options)) as LiveObject;
  } catch (error) {
    if (!(error instanceof KubeError) || (error.status !== 422 && error.status !== 400)) throw error;
    throw new UnusableWorkload(`The cluster refuses the ${manifest.kind} of this revision: ${error.message}`);
  }
}

/**
 * Server-side apply, and what to do where it cannot: the replicas of a Deployment are handed over to its autoscaler before
 * we leave them out (otherwise the server sets them to 1), disks grow, and an object that it refuses is written as a whole.
 */
async function writeObject(
  api: ApiServer,
  manifest: Manifest,
  replicas: number,
  signal: AbortSignal,
): Promise<LiveObject> {
  const { kind, metadata } = manifest;
  if (kind === "Deployment" && (manifest["spec"] as { replicas?: number }).replicas === undefined) {
    await handOverReplicas(api, manifest, replicas, signal);
  }
  if (kind === "StatefulSet") await growStorage(api, manifest, signal);
  try {
    return (await api.apply(manifest, signal)) as LiveObject;
  } catch (error) {
    if (!(error instanceof KubeError) || error.status !== 422) throw error;
    const there = await api.get<LiveObject>(kind, metadata.namespace, metadata.name, signal);
    if (there === null) return await applyOrRefuse(api, manifest, signal);
    return await replaceObject(api, manifest, there, signal);
  }
}

/** The field manager that keeps the number of replicas when nobody else does. */
const scaleManager = "pierhead-scale";

async function handOverReplicas(
  api: ApiServer,
  manifest: Manifest,
  leastReplicas: number,
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace } = manifest.metadata;
  const first = { ...manifest, spec: { ...(manifest["spec"] as object), replicas: leastReplicas } };
  const there =
    (await api.get<LiveObject>("Deployment", namespace, name, signal)) ??
    ((await api.apply(first, signal)) as LiveObject);
  const owned = there.metadata.managedFields?.find(({ manager }) => manager === fieldManager)?.fieldsV1 as
    | { "f:spec"?: { "f:replicas"?: object } }
    | undefined;
  const { replicas } = there["spec"] as { replicas?: number };
  if (owned?.["f:spec"]?.["f:replicas"] === undefined || replicas === undefined) return;
  const { apiVersion, kind } = manifest;
  const scale = { apiVersion, kind, metadata: { name, namespace }, spec: { replicas } };
  await api.apply(scale, signal, { manager: scaleManager });
}

/** What an autoscaler begins with. */
function leastReplicas({ cluster }: Workload, { metadata }: Manifest): number {
  const sizes = metadata.labels?.[componentLabel] === "queue" ? cluster.sizes.queue : cluster.sizes;
  return Math.max(1, sizes.minReplicas);
}

/**
 * Some changes of unions leave a shell behind under server-side apply. A whole object has none; afterwards the entry that
 * this way of writing made goes, or what we leave out later would stay.
 */
async function replaceObject(
  api: ApiServer,
  manifest: Manifest,
  there: LiveObject,
  signal: AbortSignal,
): Promise<LiveObject> {
  const { kind, metadata } = manifest;
  const { replicas } = (there["spec"] ?? {}) as { replicas?: number };
  const body = {
    ...manifest,
    metadata: { ...metadata, resourceVersion: there.metadata.resourceVersion },
    // Left out for an autoscaler: the server would set them to 1.
    ...(replicas !== undefined && { spec: { replicas, ...(manifest["spec"] as object) } }),
  };
  const written = (await api.replace(body, signal)) as LiveObject;
  const kept = (written.metadata.managedFields ?? []).filter(
    ({ manager, operation }) => manager !== fieldManager || operation !== "Update",
  );
  const patch = [{ op: "replace", path: "/metadata/managedFields", value: kept }];
  await api.patch(kind, metadata, patch, signal, "jsonPatch");
  return (await api.apply(manifest, signal)) as LiveObject;
}

/** Databases come before those that call them. @returns what is missing, in words. */
async function unreadyData(api: ApiServer, data: Manifest[], signal: AbortSignal): Promise<string | null> {
  for (const { kind, metadata } of data) {
    if (!["StatefulSet", "Deployment", "Cluster"].includes(kind)) continue;
    const there = await api.get<LiveObject>(kind, metadata.namespace, metadata.name, signal);
    const status = (there?.["status"] ?? {}) as { readyReplicas?: number; readyInstances?: number };
    if ((status.readyReplicas ?? status.readyInstances ?? 0) < 1) return `${metadata.name} is not ready yet`;
  }
  return null;
}

/**
 * Removes what an earlier revision had and this one has not. Pods of that one go on until this one serves, and may have to
 * be gone back to: what they cannot do without is left until then.
 */
async function prune(
  { api, traits }: ClusterContext,
  { deploymentId, cluster, isServing }: Workload,
  wanted: Manifest[],
  signal: AbortSignal,
): Promise<void> {
  const namespace = cluster.namespace as string;
  const keep = new Set(wanted.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
  for (const kind of childKinds(traits)) {
    const { items } = await api.list<LiveObject>(
      kind,
      namespace,
      { labelSelector: selectorText(deploymentId) },
      signal,
    );
    for (const { metadata } of items) {
      const isOurs = (metadata.ownerReferences as { kind: string; controller?: boolean }[] | undefined)?.some(
        (owner) => owner.kind === "ConfigMap" && owner.controller === true,
      );
      if (!isOurs || keep.has(`${kind}/${metadata.name}`) || metadata.deletionTimestamp !== undefined) continue;
      const isNeeded = kind === "ServiceAccount" || metadata.labels?.[componentLabel] === "redis";
      if (isServing || !isNeeded) await api.remove(kind, metadata, { uid: metadata.uid }, signal);
    }
  }
}

/** Deletes Secrets that no ReplicaSet can roll back to any more. @returns the others. */
async function usedSecrets(
  api: ApiServer,
  { deploymentId, cluster, ...workload }: Workload,
  names: string[],
  signal: AbortSignal,
): Promise<string[]> {
  const namespace = cluster.namespace as string;
  const { items } = await api.list("ReplicaSet", namespace, { labelSelector: selectorText(deploymentId) }, signal);
  const text = JSON.stringify(items.map((item) => item["spec"]));
  const isUsed = (name: string) => name === secretNameOf(workload) || text.includes(`"${name}"`);
  for (const name of names) if (!isUsed(name)) await api.remove("Secret", { namespace, name }, {}, signal);
  return names.filter(isUsed);
}

function hashOf(manifests: Manifest[]): string {
  return createHash("sha256").update(JSON.stringify(manifests)).digest("hex").slice(0, 16);
}
