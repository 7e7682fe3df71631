import type { ApiServer } from "./api-server.ts";
import { deploymentLabel } from "./names.ts";
import { type Manifest, UnusableWorkload } from "./workload.ts";

interface Storage {
  spec?: { volumeClaimTemplates?: { spec: { resources: { requests: { storage: string } } } }[] };
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
  const text = object?.spec?.volumeClaimTemplates?.[0]?.spec.resources.requests.storage;
  return text === undefined ? null : Number.parseFloat(text);
}
