import { KubeError } from "../api/api-server.ts";
import { childKinds } from "../api/kinds.ts";
import type { LiveObject } from "../api/manifest.ts";
import type { ClusterContext } from "../cluster-context.ts";
import { type DataPolicy, dataPolicies } from "../cluster-context.ts";
import { applyDataPolicy, dataPolicyOf, type Waiting } from "../data/apply-data-policy.ts";
import { dataAnnotation, teardownFinalizer } from "../render/names.ts";
import { selectorText } from "../render/render.ts";
import { findAnchors, readAnchor } from "./anchor.ts";

export interface Removal extends Waiting {
  /** Nothing is left to delete in the namespaces that could be inspected. */
  isGone: boolean;
  /** Namespace in which an anchor was found. */
  namespace: string | null;
  /** Namespaces that could not be inspected. */
  refused: Map<string, KubeError>;
}

/**
 * Performs one step of deleting a deployment: first the anchor with its children, then the data (disks outlive their
 * StatefulSet). The finalizer holds the anchor until the data has been treated as the policy says.
 */
export async function removeDeployment(
  context: ClusterContext,
  deploymentId: string,
  namespaces: string[],
  signal: AbortSignal,
): Promise<Removal> {
  const labelSelector = selectorText(deploymentId);
  const { anchors, refused } = await findAnchors(context.api, namespaces, labelSelector, signal);
  const removal: Removal = { isGone: true, because: null, namespace: null, refused };
  for (const anchor of anchors) {
    const { because } = await removeStep(context, anchor, { labelSelector }, signal);
    removal.isGone = false;
    removal.because ??= because;
    removal.namespace = anchor.metadata.namespace;
  }
  return removal;
}

async function removeStep(
  context: ClusterContext,
  anchor: LiveObject,
  query: { labelSelector: string },
  signal: AbortSignal,
): Promise<Waiting> {
  const policy = dataPolicyOf(anchor, context.policy);
  if (policy === null) {
    const words = `The annotation ${dataAnnotation} of the ConfigMap ${anchor.metadata.name} is none of`;
    return { because: `${words} ${dataPolicies.join(", ")}. Correct the annotation, and the deletion continues.` };
  }
  const isBegun = anchor.metadata.deletionTimestamp !== undefined;
  const isAnyLeft = isBegun && (await removeChildren(context, anchor.metadata.namespace, query, signal));
  // Another client may have started the deletion in the mode that deletes everything the anchor owns.
  if (!isBegun || (isAnyLeft && policy !== "delete")) await deleteAnchor(context, anchor, policy, signal);
  if (!isBegun || isAnyLeft) return { because: null };
  const waiting = await applyDataPolicy({ ...context, anchor, signal }, policy);
  if (waiting !== null) return waiting;
  await removeRest(context, anchor, policy, signal);
  return { because: null };
}

/**
 * Deletes the anchor. Where data stays, the Secret with its password must stay, too: the anchor's children become orphans
 * and we delete the others ourselves. An annotation records the policy, in case the listener's own policy changes meanwhile.
 */
async function deleteAnchor(
  { api }: ClusterContext,
  { metadata }: LiveObject,
  policy: DataPolicy,
  signal: AbortSignal,
) {
  const isKept = policy !== "delete";
  const note = { metadata: { annotations: { [dataAnnotation]: policy } } };
  if (isKept) await api.patch("ConfigMap", metadata, note, signal);
  const propagationPolicy = isKept ? "Orphan" : "Foreground";
  await api.remove("ConfigMap", metadata, { uid: metadata.uid, propagationPolicy }, signal);
}

/** Deletes children, except a database of an operator, which counts as data. @returns whether any is still there */
async function removeChildren(
  { api, traits }: ClusterContext,
  namespace: string,
  query: { labelSelector: string },
  signal: AbortSignal,
): Promise<boolean> {
  let isAnyLeft = false;
  for (const kind of childKinds(traits).filter((one) => one !== "Cluster")) {
    const { items } = await api.list<LiveObject>(kind, namespace, query, signal);
    for (const { metadata } of items) {
      isAnyLeft = true;
      if (metadata.deletionTimestamp === undefined) await api.remove(kind, metadata, { uid: metadata.uid }, signal);
    }
  }
  return isAnyLeft || (await api.list("Pod", namespace, query, signal)).items.length > 0;
}

/** Deletes the Secrets, and removes the finalizer last. */
async function removeRest(
  { api }: ClusterContext,
  anchor: LiveObject,
  policy: DataPolicy,
  signal: AbortSignal,
): Promise<void> {
  const { namespace } = anchor.metadata;
  const { slug, secrets } = readAnchor(anchor);
  const ofData = policy === "delete" ? [`${slug}-postgres`] : [];
  for (const name of [...(JSON.parse(secrets) as string[]), `${slug}-redis`, ...ofData]) {
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
    // Another client was faster, for example the garbage collector with its own finalizer: the next step continues.
    if (!(error instanceof KubeError) || ![404, 409, 422].includes(error.status)) throw error;
  }
}
