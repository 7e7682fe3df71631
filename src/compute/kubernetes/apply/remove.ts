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
  /** Nothing is left that was to go, as far as could be seen. */
  isGone: boolean;
  /** Where something of it was found. */
  namespace: string | null;
  /** Where nobody could look. */
  refused: Map<string, KubeError>;
}

/**
 * One step of taking a deployment away: the anchor is deleted and its children with it, then comes the data (disks outlive
 * their StatefulSet), and only when that is as it is to be the anchor may go.
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
    return { because: `${words} ${dataPolicies.join(", ")}. Correct it, and the deletion goes on.` };
  }
  const isBegun = anchor.metadata.deletionTimestamp !== undefined;
  const isAnyLeft = isBegun && (await removeChildren(context, anchor.metadata.namespace, query, signal));
  // Somebody else may have begun it, in the way in which all that the anchor owns goes with it.
  if (!isBegun || (isAnyLeft && policy !== "delete")) await deleteAnchor(context, anchor, policy, signal);
  if (!isBegun || isAnyLeft) return { because: null };
  const waiting = await applyDataPolicy({ ...context, anchor, signal }, policy);
  if (waiting !== null) return waiting;
  await removeRest(context, anchor, policy, signal);
  return { because: null };
}

/**
 * Where data stays, the Secret with its password has to: what an anchor leaves behind as orphans is nobody's, and what is not
 * to stay we delete ourselves. The anchor says which way was taken, whatever the listener's own policy becomes meanwhile.
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

/** All but a database of an operator, which is data. @returns whether any is still there. */
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

/** Secrets, and the finalizer last of all. */
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
    // Somebody was faster, as the garbage collector with its own finalizer: the next look sees what is left.
    if (!(error instanceof KubeError) || ![404, 409, 422].includes(error.status)) throw error;
  }
}
