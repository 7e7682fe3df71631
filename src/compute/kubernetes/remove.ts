import { KubeError } from "./api-server.ts";
import { type ApplyGround, childKinds, type Living, readAnchor } from "./apply.ts";
import { teardownFinalizer } from "./names.ts";
import { selectorText } from "./render.ts";

/**
 * One step of taking a deployment away: the anchor is deleted and the garbage collector takes its children, then we take
 * what it leaves (disks outlive their StatefulSet), and only when nothing is left the anchor may go.
 * @returns true once nothing is left.
 */
export async function removeDeployment(
  { api, traits }: ApplyGround,
  deploymentId: string,
  namespaces: string[],
  signal: AbortSignal,
): Promise<boolean> {
  const query = { labelSelector: selectorText(deploymentId) };
  let isGone = true;
  for (const namespace of namespaces) {
    const { items: anchors } = await api.list<Living>("ConfigMap", namespace, query, signal);
    for (const anchor of anchors) {
      isGone = false;
      if (anchor.metadata.deletionTimestamp === undefined) {
        const options = { uid: anchor.metadata.uid, propagationPolicy: "Foreground" } as const;
        await api.remove("ConfigMap", anchor.metadata, options, signal);
        continue;
      }
      if (await hasChildren({ api, traits }, namespace, query, signal)) continue;
      await removeRest(api, anchor, namespace, query, signal);
    }
  }
  return isGone;
}

async function hasChildren(
  { api, traits }: Pick<ApplyGround, "api" | "traits">,
  namespace: string,
  query: { labelSelector: string },
  signal: AbortSignal,
): Promise<boolean> {
  for (const kind of [...childKinds(traits), "Pod"]) {
    const { items } = await api.list(kind, namespace, query, signal);
    if (items.length > 0) return true;
  }
  return false;
}

/** Disks first, and the finalizer only when they are gone: a name that is used again must not find old data. */
async function removeRest(
  api: ApplyGround["api"],
  anchor: Living,
  namespace: string,
  query: { labelSelector: string },
  signal: AbortSignal,
): Promise<void> {
  const { items: claims } = await api.list<Living>("PersistentVolumeClaim", namespace, query, signal);
  for (const { metadata } of claims) {
    if (metadata.deletionTimestamp === undefined) await api.remove("PersistentVolumeClaim", metadata, {}, signal);
  }
  if (claims.length > 0) return;
  const { slug, secrets } = readAnchor(anchor);
  for (const name of [...(JSON.parse(secrets) as string[]), `${slug}-postgres`, `${slug}-redis`]) {
    await api.remove("Secret", { namespace, name }, {}, signal);
  }
  const finalizers = (anchor.metadata.finalizers ?? []).filter((one) => one !== teardownFinalizer);
  const patch = [
    { op: "test", path: "/metadata/resourceVersion", value: anchor.metadata.resourceVersion },
    { op: "replace", path: "/metadata/finalizers", value: finalizers },
  ];
  if (finalizers.length === anchor.metadata.finalizers?.length) return;
  try {
    await api.patch("ConfigMap", anchor.metadata, patch, signal, "jsonPatch");
  } catch (error) {
    // Somebody was faster, as the garbage collector with its own finalizer: the next look sees what is left.
    if (!(error instanceof KubeError) || ![404, 409, 422].includes(error.status)) throw error;
  }
}
