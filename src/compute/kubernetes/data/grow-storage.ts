import type { ApiServer } from "../api/api-server.ts";
import type { Manifest } from "../api/manifest.ts";
import { deploymentLabel } from "../render/names.ts";
import { quantityOf } from "../watch/usage.ts";
import { UnusableWorkload } from "../workload.ts";

interface Storage {
  spec?: {
    volumeClaimTemplates?: { spec: { resources: { requests: { storage: string } } } }[];
    /** Of a database of CloudNativePG. */
    storage?: { size: string };
  };
}

/**
 * Databases of a revision that ran before: a later one that failed may have made their disks larger, and no disk shrinks.
 * They go on with the disks as they are.
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
 * The disk of a StatefulSet cannot be changed in place: its claims are made larger, and it is made anew around its pods,
 * which go on running.
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
  // The API server writes what it is given its own way: 1024Gi come back as 1Ti.
  return text === undefined ? null : quantityOf(text) / 2 ** 30;
}
