import { setTimeout as sleep } from "node:timers/promises";
import { type ApiServer, KubeError } from "../api/api-server.ts";
import type { LiveObject, Manifest } from "../api/manifest.ts";
import type { ClusterContext } from "../cluster-context.ts";
import { deploymentLabel, labelsOf, listenerLabel, teardownFinalizer } from "../render/names.ts";
import { type DatabaseMode, ForbiddenWorkload, Superseded, type Workload } from "../workload.ts";

/**
 * Content of the anchor: the ConfigMap that owns all other objects of a deployment. It contains what is needed to continue
 * after a restart, and no secrets.
 */
export interface AnchorData {
  generation: string;
  epoch: string;
  revision: string;
  slug: string;
  database: DatabaseMode;
  /** Hash of the objects that were rendered last. */
  hash: string;
  /** Names of Secrets, as JSON, because we may not list Secrets. */
  secrets: string;
}

export function readAnchor(anchor: LiveObject): AnchorData {
  return anchor["data"] as AnchorData;
}

/**
 * Writes the anchor, before any other object. It contains epoch and generation, so a listener that was replaced while it
 * was suspended fails here and changes nothing else.
 */
export async function applyAnchor(
  { api }: ClusterContext,
  workload: Workload,
  before: LiveObject | null,
  state: { database: DatabaseMode; hash: string; secrets: string[] },
  signal: AbortSignal,
): Promise<LiveObject> {
  const { slug, cluster, generation, epoch, revisionId } = workload;
  if (before !== null) refuseOlder(before, workload);
  const data: AnchorData = {
    generation: String(generation),
    epoch: String(epoch),
    revision: revisionId,
    slug,
    database: state.database,
    hash: state.hash,
    secrets: JSON.stringify(state.secrets),
  };
  const manifest: Manifest = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: {
      name: slug,
      namespace: cluster.namespace as string,
      labels: { ...labelsOf(workload, "anchor"), [listenerLabel]: workload.listenerId },
      finalizers: [teardownFinalizer],
      ...(before !== null && { resourceVersion: before.metadata.resourceVersion }),
    },
    data,
  };
  return (await api.apply(manifest, signal)) as LiveObject;
}

/** @throws ForbiddenWorkload for a ConfigMap that others created, which must not be changed. */
export function refuseForeign({ metadata: { name, namespace, labels } }: LiveObject, { deploymentId }: Workload): void {
  if (labels?.[deploymentLabel] === deploymentId) return;
  throw new ForbiddenWorkload(
    `The ConfigMap ${name} in ${namespace} does not belong to this deployment. Rename or remove it.`,
  );
}

/** @throws Superseded when the anchor has a newer epoch or generation. */
export function refuseOlder(anchor: LiveObject, { generation, epoch }: Workload): void {
  const there = readAnchor(anchor);
  const isNewer =
    Number(there.epoch) > epoch || (Number(there.epoch) === epoch && Number(there.generation) > generation);
  if (isNewer) throw new Superseded(`epoch ${there.epoch}, generation ${there.generation} was applied before`);
}

export const ownerOf = ({ metadata }: LiveObject) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  name: metadata.name,
  uid: metadata.uid,
  controller: true,
  blockOwnerDeletion: true,
});

/**
 * Finds anchors in all namespaces. When a namespace is deleted, our rights there disappear. That must not block work in the
 * other namespaces, and is not the same as finding nothing, so refusals are returned.
 */
export async function findAnchors(
  api: ApiServer,
  namespaces: string[],
  labelSelector: string,
  signal: AbortSignal,
): Promise<{ anchors: LiveObject[]; refused: Map<string, KubeError> }> {
  const anchors: LiveObject[] = [];
  const refused = new Map<string, KubeError>();
  for (const namespace of namespaces) {
    try {
      anchors.push(...(await api.list<LiveObject>("ConfigMap", namespace, { labelSelector }, signal)).items);
    } catch (error) {
      if (!(error instanceof KubeError) || error.status !== 403) throw error;
      refused.set(namespace, error);
    }
  }
  return { anchors, refused };
}

const pollMs = 500;

/**
 * Replaces an anchor that another client is deleting. It waits for our finalizer, and a deletion cannot be revoked: all
 * objects that it owns would be deleted, too, including the password of a database. So its objects are orphaned first, and
 * a new anchor with the same content takes over. Until it exists, only this process knows the content.
 * @returns the new anchor
 */
export async function renewAnchor(api: ApiServer, anchor: LiveObject, signal: AbortSignal): Promise<LiveObject> {
  const { name, namespace, uid, labels = {}, annotations = {} } = anchor.metadata;
  const read = () => api.get<LiveObject>("ConfigMap", namespace, name, signal);
  await api.remove("ConfigMap", anchor.metadata, { uid, propagationPolicy: "Orphan" }, signal);
  for (;;) {
    const there = await read();
    if (there === null || there.metadata.uid !== uid) break;
    // The garbage collector sets this finalizer while it is orphaning the objects.
    if (!there.metadata.finalizers?.includes("orphan")) await removeFinalizer(api, there, signal);
    await sleep(pollMs, undefined, { signal });
  }
  const metadata = { name, namespace, labels, annotations, finalizers: [teardownFinalizer] };
  await api.create({ apiVersion: "v1", kind: "ConfigMap", metadata, data: anchor["data"] }, signal);
  const renewed = await read();
  if (renewed === null) throw new Error(`the ConfigMap ${name} was deleted and could not be created again`);
  return renewed;
}

async function removeFinalizer(api: ApiServer, { metadata }: LiveObject, signal: AbortSignal): Promise<void> {
  const finalizers = (metadata.finalizers ?? []).filter((one) => one !== teardownFinalizer);
  const patch = [
    { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
    { op: "replace", path: "/metadata/finalizers", value: finalizers },
  ];
  await api.patch("ConfigMap", metadata, patch, signal, "jsonPatch");
}
