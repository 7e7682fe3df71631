import type { ApiServer } from "../api/api-server.ts";
import type { Manifest } from "../api/manifest.ts";
import { deploymentLabel } from "../render/names.ts";
import { quantityOf } from "../watch/usage.ts";
import { UnusableWorkload } from "../workload.ts";

interface Storage {
  spec?: {
    volumeClaimTemplates?: { spec: { resources: { requests: { storage: string } } } }[];
    /** In a database of CloudNativePG. */
    storage?: { size: string };
  };
}

/**
 * Keeps larger disks in the manifests of a revision that has served before: a later revision that failed may have grown
 * them, and disks cannot shrink.
 */
export async function keepLargerDisks(api: ApiServer, data: Manifest[], signal: AbortSignal): Promise<Manifest[]> {
  return Promise.all(
    data.map(async (manifest) => {
      const wanted = gibOf(manifest as Storage);
      if (wanted === null) return manifest;
      const { kind, metadata } = manifest;
      const there = gibOf(await api.get<Storage>(kind, metadata.namespace, metadata.name, signal));
      return there !== null && there > wanted ? withGib(manifest, there) : manifest;
    }),
  );
}

function withGib(manifest: Manifest, gib: number): Manifest {
  const copy = structuredClone(manifest);
  const { volumeClaimTemplates = [], storage } = (copy as Storage).spec ?? {};
  for (const { spec } of volumeClaimTemplates) spec.resources.requests.storage = `${gib}Gi`;
  if (storage !== undefined) storage.size = `${gib}Gi`;
  return copy;
}

/**
 * Grows the disk of a StatefulSet, which cannot be changed in place: enlarges its claims and deletes the StatefulSet but not
 * its pods, which keep running. The caller then creates it again.
 * @throws UnusableWorkload when the disk would shrink.
 */
export async function growStorage(api: ApiServer, manifest: Manifest, signal: AbortSignal): Promise<void> {
  const { namespace, name, labels = {} } = manifest.metadata;
  const there = await api.get<Storage & { metadata: { uid: string } }>("StatefulSet", namespace, name, signal);
  const [before, after] = [gibOf(there), gibOf(manifest as Storage)];
  if (there === null || before === null || after === null || before === after) return;
  if (after < before) {
    throw new UnusableWorkload(`db_storage_gi cannot shrink: the disk has ${before} Gi. Choose ${before} or more.`);
  }
  const labelSelector = `${deploymentLabel}=${labels[deploymentLabel]}`;
  const claims = await api.list("PersistentVolumeClaim", namespace, { labelSelector }, signal);
  const body = { spec: { resources: { requests: { storage: `${after}Gi` } } } };
  for (const { metadata } of claims.items) await api.patch("PersistentVolumeClaim", metadata, body, signal);
  await api.remove(
    "StatefulSet",
    { namespace, name },
    { uid: there.metadata.uid, propagationPolicy: "Orphan" },
    signal,
  );
}

function gibOf(object: Storage | null): number | null {
  const { volumeClaimTemplates, storage } = object?.spec ?? {};
  const text = volumeClaimTemplates?.[0]?.spec.resources.requests.storage ?? storage?.size;
  // The API server normalizes quantities: 1024Gi is returned as 1Ti.
  return text === undefined ? null : quantityOf(text) / 2 ** 30;
}
