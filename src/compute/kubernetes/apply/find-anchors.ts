import { type ApiServer, KubeError } from "../api-server.ts";
import type { Living } from "./apply.ts";

/**
 * Anchors, wherever they are. With a namespace that somebody deletes our rights there go: that must not keep us from what
 * is in the others, and is not the same as finding nothing.
 */
export async function findAnchors(
  api: ApiServer,
  namespaces: string[],
  labelSelector: string,
  signal: AbortSignal,
): Promise<{ anchors: Living[]; refused: Map<string, KubeError> }> {
  const anchors: Living[] = [];
  const refused = new Map<string, KubeError>();
  for (const namespace of namespaces) {
    try {
      anchors.push(...(await api.list<Living>("ConfigMap", namespace, { labelSelector }, signal)).items);
    } catch (error) {
      if (!(error instanceof KubeError) || error.status !== 403) throw error;
      refused.set(namespace, error);
    }
  }
  return { anchors, refused };
}
