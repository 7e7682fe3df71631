import { KubeError } from "../api/api-server.ts";
import type { LiveObject } from "../api/manifest.ts";
import { readAnchor } from "../apply/anchor.ts";
import type { ClusterContext } from "../cluster-context.ts";
import { type ClusterPolicy, type DataPolicy, dataPolicies } from "../cluster-context.ts";
import { dataAnnotation, deploymentLabel, retainedLabel } from "../render/names.ts";
import { selectorText } from "../render/render.ts";

/** An unfinished step. `because`: what blocks it, when a person may have to act; null: it only takes time. */
export interface Waiting {
  because: string | null;
}

/** Returns the policy for this deployment's data: its annotation, or else the default. @returns null for an unknown policy */
export function dataPolicyOf(anchor: LiveObject, { dataPolicy }: ClusterPolicy): DataPolicy | null {
  if (readAnchor(anchor).database === "external") return "delete";
  const asked = anchor.metadata.annotations?.[dataAnnotation] ?? dataPolicy;
  return dataPolicies.find((one) => one === asked) ?? null;
}

interface DataContext extends Pick<ClusterContext, "api" | "traits" | "policy"> {
  anchor: LiveObject;
  signal: AbortSignal;
}

/**
 * Performs one step of treating the data as the policy says, after nothing uses it any more.
 * @returns null when it is complete
 */
export async function applyDataPolicy(context: DataContext, policy: DataPolicy): Promise<Waiting | null> {
  try {
    if (policy === "retain") return await retain(context);
    const waiting = policy === "snapshot" ? await takeSnapshots(context) : null;
    return waiting ?? (await removeDisks(context));
  } catch (error) {
    if (!(error instanceof KubeError) || ![400, 403, 404, 422].includes(error.status)) throw error;
    return { because: `The cluster refuses what the data policy '${policy}' needs: ${error.message}` };
  }
}

async function retain(context: DataContext): Promise<null> {
  const { api, signal } = context;
  await hibernateDatabase(context);
  const body = { metadata: { labels: { [retainedLabel]: "true" } } };
  for (const { metadata } of await disksOf(context)) await api.patch("PersistentVolumeClaim", metadata, body, signal);
  return null;
}

/** Hibernates a database of an operator. Its object stays, because deleting it would delete its disks; only they cost money. */
async function hibernateDatabase(context: DataContext): Promise<LiveObject | null> {
  const { api, anchor, signal } = context;
  const cluster = await databaseOf(context);
  if (cluster === null || cluster.metadata.labels?.[retainedLabel] === "true") return cluster;
  const marks = {
    labels: { [retainedLabel]: "true" },
    annotations: { "cnpg.io/hibernation": "on" },
    // The garbage collector may not know this kind yet: it would leave us as the owner, and delete it once we are gone.
    ownerReferences: null,
  };
  const key = { namespace: anchor.metadata.namespace, name: cluster.metadata.name };
  return (await api.patch("Cluster", key, { metadata: marks }, signal)) as LiveObject;
}

async function takeSnapshots(context: DataContext): Promise<Waiting | null> {
  const { traits } = context;
  const disks = (await disksOf(context)).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const cluster = await hibernateDatabase(context);
  if (cluster !== null && cluster.metadata.deletionTimestamp === undefined && !isHibernated(cluster)) {
    return { because: null };
  }
  if (disks.length > 0 && !traits.hasSnapshots) {
    return {
      because:
        "The data policy asks for a snapshot, but this cluster has no VolumeSnapshot (snapshot.storage.k8s.io/v1). Install a " +
        `snapshot controller, or set the annotation ${dataAnnotation} of the ConfigMap to 'retain' or 'delete'.`,
    };
  }
  for (const disk of disks) {
    const waiting = await takeSnapshot(context, disk);
    if (waiting !== null) return waiting;
  }
  return null;
}

const isHibernated = (cluster: LiveObject) =>
  (cluster["status"] as { conditions?: { type: string; status: string }[] } | undefined)?.conditions?.some(
    ({ type, status }) => type === "cnpg.io/hibernation" && status === "True",
  ) ?? false;

async function takeSnapshot(
  { api, policy, anchor, signal }: DataContext,
  { metadata }: LiveObject,
): Promise<Waiting | null> {
  const name = `${metadata.name}-last`;
  const { namespace, labels } = anchor.metadata;
  const there = await api.get<LiveObject>("VolumeSnapshot", namespace, name, signal);
  if (there === null) {
    const { snapshotClass } = policy;
    const manifest = {
      apiVersion: "snapshot.storage.k8s.io/v1",
      kind: "VolumeSnapshot",
      metadata: { name, namespace, labels: { ...labels, ...metadata.labels, [retainedLabel]: "true" } },
      spec: {
        source: { persistentVolumeClaimName: metadata.name },
        ...(snapshotClass !== null && { volumeSnapshotClassName: snapshotClass }),
      },
    };
    await api.create(manifest, signal);
    return { because: null };
  }
  const { readyToUse, error } = (there["status"] ?? {}) as { readyToUse?: boolean; error?: { message?: string } };
  if (readyToUse === true) return null;
  const words = `The snapshot ${name} cannot be taken: ${error?.message}. The disk stays until the snapshot is ready.`;
  return { because: error === undefined ? null : words };
}

/** Deletes the disks before the anchor, because a later deployment with the same name must not find old data. */
async function removeDisks(context: DataContext): Promise<Waiting | null> {
  const { api, signal } = context;
  const cluster = await databaseOf(context);
  if (cluster !== null && cluster.metadata.deletionTimestamp === undefined) {
    await api.remove("Cluster", cluster.metadata, { uid: cluster.metadata.uid }, signal);
  }
  const disks = await disksOf(context);
  for (const { metadata } of disks) {
    if (metadata.deletionTimestamp === undefined) await api.remove("PersistentVolumeClaim", metadata, {}, signal);
  }
  return disks.length > 0 || cluster !== null ? { because: null } : null;
}

/** Returns the database of CloudNativePG; null: there is none, or it is gone. */
async function databaseOf({ api, anchor, traits, signal }: DataContext): Promise<LiveObject | null> {
  const { slug, database } = readAnchor(anchor);
  if (database !== "cnpg" || !traits.hasCnpg) return null;
  return api.get<LiveObject>("Cluster", anchor.metadata.namespace, `${slug}-postgres`, signal);
}

async function disksOf({ api, anchor, signal }: DataContext): Promise<LiveObject[]> {
  const { namespace, labels = {} } = anchor.metadata;
  const { slug, database } = readAnchor(anchor);
  const ours = selectorText(labels[deploymentLabel] ?? "");
  const labelSelector = database === "cnpg" ? `cnpg.io/cluster=${slug}-postgres` : ours;
  return (await api.list<LiveObject>("PersistentVolumeClaim", namespace, { labelSelector }, signal)).items;
}
