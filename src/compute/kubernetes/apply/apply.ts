import { createHash } from "node:crypto";
import type { RoutedBy } from "../../cluster.ts";
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
import { checkWorkload, refuseForeignObjects } from "./check-workload.ts";
import { createSecrets } from "./create-secrets.ts";
import { findDrift, type WrittenObjects } from "./drift.ts";
import { scaleManager } from "./sleep.ts";

export interface Applied {
  /** What must be ready before the agent can start; null: everything was applied. */
  waitingFor: string | null;
  /** Changes by hand that an annotation tells us to keep; null: there are none. */
  held: string[] | null;
  routedBy: RoutedBy;
}

/**
 * Applies the objects of a deployment. Idempotent: objects that are up to date are not written. Records what it wrote in
 * `written`, also when it fails later.
 * @throws UnusableWorkload with a message for the user; Superseded when a newer generation or session was applied; KubeError
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
  if (annotations[pausedAnnotation] === "true") return { waitingFor: null, held: [], routedBy: "own" };
  if (before?.metadata.deletionTimestamp !== undefined) {
    refuseOlder(before, workload);
    before = await renewAnchor(api, before, signal);
  }
  await refuseForeignObjects(api, workload, signal);
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
    // A route that a gateway has replaced goes once the gateway serves it, which may be after the last change.
    const keepsRoute = await prune(context, workload, [...data, ...rest], signal);
    return { waitingFor: null, held: held.length > 0 ? held : null, routedBy: routedBy(rest, keepsRoute) };
  }
  const secrets = [...new Set([...secretsIn(known), secretNameOf(workload)])];
  const anchor = await applyAnchor(context, workload, before, { database, hash: known?.hash ?? "", secrets }, signal);
  written.record(anchor);
  const owned = ownedBy(anchor);
  if (isChanged) {
    await removeReplacedScalers(api, rest, signal);
    await dryRunAll(api, [...data, ...rest].map(owned), signal);
  }
  await createSecrets(api, workload, database, owned, signal);
  const put = async (manifests: Manifest[]) => {
    for (const manifest of manifests) {
      written.record(await writeObject(api, owned(manifest), leastReplicas(workload, manifest), signal));
    }
  };
  await put(data);
  const waitingFor = isFirst(known) ? await unreadyData(api, data, signal) : null;
  if (waitingFor !== null) return { waitingFor, held: null, routedBy: "own" };
  await put(rest);
  const keepsRoute = known !== null && (await prune(context, workload, [...data, ...rest], signal));
  const noted = { database, hash, secrets: await usedSecrets(api, workload, secrets, signal) };
  await applyAnchor(context, workload, anchor, noted, signal);
  return { waitingFor: null, held: null, routedBy: routedBy(rest, keepsRoute) };
}

function routedBy(rendered: readonly Manifest[], keepsRoute: boolean): RoutedBy {
  if (rendered.some(isRoute)) return "own";
  return keepsRoute ? "both" : "gateway";
}

const isRoute = ({ kind }: { kind: string }) => kind === "Ingress" || kind === "HTTPRoute";

const isFirst = (known: AnchorData | null) => known === null || known.hash === "";

function chooseDatabase({ cluster }: Workload, { hasCnpg }: ClusterTraits): DatabaseMode {
  return hasCnpg && cluster.profile === "production" ? "cnpg" : "plain";
}

const secretsIn = (known: AnchorData | null): string[] => (known === null ? [] : JSON.parse(known.secrets));

/**
 * Deletes our own autoscalers of workloads that KEDA is to scale: its admission refuses a workload that another autoscaler still
 * scales. The replicas stay as they are meanwhile.
 */
async function removeReplacedScalers(api: ApiServer, manifests: Manifest[], signal: AbortSignal): Promise<void> {
  for (const { kind, metadata } of manifests) {
    if (kind !== "ScaledObject") continue;
    const scaler = await api.get<LiveObject>("HorizontalPodAutoscaler", metadata.namespace, metadata.name, signal);
    if (scaler === null || !isOurs(scaler)) continue;
    await api.remove("HorizontalPodAutoscaler", scaler.metadata, { uid: scaler.metadata.uid }, signal);
  }
}

const isOurs = ({ metadata }: LiveObject): boolean =>
  (metadata.ownerReferences as { kind: string; controller?: boolean }[] | undefined)?.some(
    (owner) => owner.kind === "ConfigMap" && owner.controller === true,
  ) === true;

/** Tests all objects with a dry run before anything changes: a refusal must not leave half of a revision behind. */
async function dryRunAll(api: ApiServer, manifests: Manifest[], signal: AbortSignal): Promise<void> {
  for (const manifest of manifests) {
    try {
      await api.apply(manifest, signal, { dryRun: true });
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (
        error.status === 422 &&
        (await api.get(manifest.kind, manifest.metadata.namespace, manifest.metadata.name, signal))
      ) {
        // An existing object may need one of the fallbacks of `writeObject`.
        continue;
      }
      await applyOrRefuse(api, manifest, signal, { dryRun: true });
    }
  }
}

/** Whether the cluster cannot take an object as it is. It answers 500 if a value has another type than the field. */
const isRefusal = (error: unknown): error is KubeError =>
  error instanceof KubeError && (error.status === 422 || error.status === 400 || mistyped.test(error.message));

const mistyped = /^failed to (create typed patch object|convert new object) /;

/**
 * Applies an object once more after a refusal, when it does not exist. The refused change may have met an object that was
 * just being deleted, for example a StatefulSet that is created again with a larger disk.
 * @throws UnusableWorkload when the cluster refuses to create it, too
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
    if (!isRefusal(error)) throw error;
    throw new UnusableWorkload(`The cluster refuses the ${manifest.kind} of this revision: ${error.message}`);
  }
}

/**
 * Writes an object by server-side apply, with fallbacks: it hands over the replicas of a Deployment to its autoscaler before
 * leaving them out (the server would set them to 1), grows disks, and replaces an object that the server refuses to apply.
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

/** Returns the replicas with which an autoscaler starts. */
function leastReplicas({ cluster }: Workload, { metadata }: Manifest): number {
  const sizes = metadata.labels?.[componentLabel] === "queue" ? cluster.sizes.queue : cluster.sizes;
  return Math.max(1, sizes.minReplicas);
}

/**
 * Replaces a whole object, because server-side apply leaves an empty shell behind when a union changes its member. Then
 * removes the ownership entry of the replace, because fields that we leave out later would otherwise stay.
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
    // Keeps the replicas that an autoscaler has set; the server would set them to 1.
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

/** Returns the first database that is not ready, as a text, or null. Databases must be ready before the agent starts. */
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
 * Deletes objects of an earlier revision that this revision does not have. Pods of the earlier one run until this one serves,
 * and a rollback may need them, so objects that those pods need are kept until then.
 * @returns whether it kept a route, because the gateway in the cluster has none to this deployment yet
 */
async function prune(
  { api, traits, isRouted }: ClusterContext,
  { deploymentId, cluster, isServing }: Workload,
  wanted: Manifest[],
  signal: AbortSignal,
): Promise<boolean> {
  let keepsRoute = false;
  const namespace = cluster.namespace as string;
  const keep = new Set(wanted.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
  for (const kind of childKinds(traits)) {
    const { items } = await api.list<LiveObject>(
      kind,
      namespace,
      { labelSelector: selectorText(deploymentId) },
      signal,
    );
    for (const item of items) {
      const { metadata } = item;
      if (!isOurs(item) || keep.has(`${kind}/${metadata.name}`) || metadata.deletionTimestamp !== undefined) continue;
      if (isRoute({ kind }) && isRouted !== undefined && !(await isRouted(deploymentId, signal))) {
        keepsRoute = true;
        continue;
      }
      const isNeeded = kind === "ServiceAccount" || metadata.labels?.[componentLabel] === "redis";
      if (isServing || !isNeeded) await api.remove(kind, metadata, { uid: metadata.uid }, signal);
    }
  }
  return keepsRoute;
}

/** Deletes Secrets that no ReplicaSet can roll back to. @returns the names of the others */
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
