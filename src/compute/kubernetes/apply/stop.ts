import type { LiveObject } from "../api/manifest.ts";
import type { ClusterContext } from "../cluster-context.ts";
import { componentLabel, deploymentLabel, pausedAnnotation } from "../render/names.ts";
import { selectorText } from "../render/render.ts";
import { readAnchor } from "./anchor.ts";

/** Autoscalers first, so that none of them starts a pod again. */
const stoppedKinds = ["ScaledObject", "HorizontalPodAutoscaler", "Deployment"] as const;

export interface Stop {
  deploymentId: string;
  slug: string;
  namespace: string;
  /** Session and generation that decided it. A newer pair in the anchor wins. */
  epoch: number;
  generation: number;
}

/**
 * Stops a deployment that serves nothing: deletes the agent's pods, its workers and Redis, which would otherwise restart
 * without end and hold the room of others. The database stays, because it may have data. Idempotent.
 */
export async function stopDeployment({ api, traits }: ClusterContext, stop: Stop, signal: AbortSignal): Promise<void> {
  const { deploymentId, slug, namespace } = stop;
  const anchor = await api.get<LiveObject>("ConfigMap", namespace, slug, signal);
  if (anchor === null || !mayStop(anchor, stop)) return;
  for (const kind of stoppedKinds) {
    if (kind === "ScaledObject" && !traits.hasKeda) continue;
    const query = { labelSelector: `${selectorText(deploymentId)},${componentLabel} in (server,queue,redis)` };
    const { items } = await api.list<LiveObject>(kind, namespace, query, signal);
    for (const { metadata } of items) {
      if (metadata.deletionTimestamp === undefined) await api.remove(kind, metadata, { uid: metadata.uid }, signal);
    }
  }
}

function mayStop(anchor: LiveObject, { deploymentId, epoch, generation }: Stop): boolean {
  const { labels, annotations, deletionTimestamp } = anchor.metadata;
  if (labels?.[deploymentLabel] !== deploymentId || deletionTimestamp !== undefined) return false;
  if (annotations?.[pausedAnnotation] === "true") return false;
  const there = readAnchor(anchor);
  return Number(there.epoch) < epoch || (Number(there.epoch) === epoch && Number(there.generation) <= generation);
}
