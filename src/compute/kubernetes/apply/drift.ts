import { isDeepStrictEqual } from "node:util";
import { type ApiServer, fieldManager } from "../api/api-server.ts";
import type { LiveObject, Manifest } from "../api/manifest.ts";

/** State of an object after our last write. */
interface Written {
  uid: string;
  resourceVersion: number;
  /** Fields that we own, in the API server's notation. */
  owned: string;
}

/**
 * Remembers objects as we wrote them, to detect drift: changes by other clients to fields that we own. A client that changes
 * such a field takes over its ownership. Statuses, and replicas that an autoscaler sets, are therefore no drift.
 */
export class WrittenObjects {
  readonly #objects = new Map<string, Written>();

  record(living: LiveObject): void {
    this.#objects.set(keyOf(living), writtenOf(living));
  }

  has(kind: string, name: string): boolean {
    return this.#objects.has(`${kind}/${name}`);
  }

  /** Returns the entries of `newer`, and ours for all other objects. */
  mergedWith(newer: WrittenObjects): WrittenObjects {
    const merged = new WrittenObjects();
    for (const [key, written] of [...this.#objects, ...newer.#objects]) merged.#objects.set(key, written);
    return merged;
  }

  isDrift(type: "ADDED" | "MODIFIED" | "DELETED", object: LiveObject): boolean {
    const written = this.#objects.get(keyOf(object));
    // We created it again ourselves, for example a database with a larger disk.
    if (written === undefined || written.uid !== object.metadata.uid) return false;
    if (type === "DELETED") return true;
    // Annotations of others on an anchor are meant for us. Its deletion is drift: it and all its objects wait for us.
    if (object.kind === "ConfigMap") return object.metadata.deletionTimestamp !== undefined;
    const { resourceVersion, owned } = writtenOf(object);
    return resourceVersion > written.resourceVersion && owned !== written.owned;
  }
}

const keyOf = ({ kind, metadata }: LiveObject) => `${kind}/${metadata.name}`;

function writtenOf({ metadata }: LiveObject): Written {
  const own = metadata.managedFields?.find(
    ({ manager, operation }) => manager === fieldManager && operation === "Apply",
  );
  const { uid, resourceVersion } = metadata;
  return { uid, resourceVersion: Number(resourceVersion), owned: JSON.stringify(own?.fieldsV1 ?? {}) };
}

/**
 * Returns what applying these objects again would change, without changing it.
 * @returns texts such as `Service agent-1: spec.selector`; empty: nothing differs
 */
export async function findDrift(api: ApiServer, manifests: Manifest[], signal: AbortSignal): Promise<string[]> {
  const found: string[] = [];
  for (const manifest of manifests) {
    const { kind, metadata } = manifest;
    const there = await api.get<LiveObject>(kind, metadata.namespace, metadata.name, signal);
    if (there === null) {
      found.push(`${kind} ${metadata.name}: deleted`);
      continue;
    }
    const wanted = (await api.apply(manifest, signal, { dryRun: true })) as LiveObject;
    const paths = Object.keys(manifest)
      .filter((part) => part !== "metadata")
      .flatMap((part) => differences(there[part], wanted[part], part));
    const { labels, annotations, ownerReferences } = there.metadata;
    const ours = wanted.metadata;
    const ofMetadata = [
      ...differences(labels, ours.labels, "metadata.labels"),
      ...differences(annotations, ours.annotations, "metadata.annotations"),
      ...differences(ownerReferences, ours.ownerReferences, "metadata.ownerReferences"),
    ];
    found.push(...[...paths, ...ofMetadata].map((path) => `${kind} ${metadata.name}: ${path}`));
  }
  return found;
}

/** Returns the paths of the smallest parts that differ. */
function differences(there: unknown, wanted: unknown, path: string): string[] {
  if (isDeepStrictEqual(there, wanted)) return [];
  const isBranch = (part: unknown): part is Record<string, unknown> => typeof part === "object" && part !== null;
  if (!isBranch(there) || !isBranch(wanted)) return [path];
  const keys = new Set([...Object.keys(there), ...Object.keys(wanted)]);
  return [...keys].flatMap((key) => differences(there[key], wanted[key], `${path}.${key}`));
}
