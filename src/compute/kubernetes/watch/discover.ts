import type { ApiServer } from "../api/api-server.ts";
import type { ClusterTraits } from "../cluster-context.ts";

/** Oldest minor version with `lifecycle.preStop.sleep`, native sidecars and autoscaling/v2. */
const oldestMinor = 30;

/** Discovers what this cluster offers beyond the built-in kinds. @throws Error when it is too old. */
export async function discover(api: ApiServer, signal: AbortSignal): Promise<ClusterTraits> {
  const [version, groups] = await Promise.all([
    api.call<{ gitVersion: string; minor: string }>({ method: "GET", path: "/version", signal }),
    api.call<{ groups: { name: string; versions: { version: string }[] }[] }>({ method: "GET", path: "/apis", signal }),
  ]);
  if (Number.parseInt(version.minor, 10) < oldestMinor) {
    throw new Error(`this cluster runs Kubernetes ${version.gitVersion}, but Pierhead needs 1.${oldestMinor} or newer`);
  }
  const serves = (group: string, wanted: string) =>
    groups.groups.some(({ name, versions }) => name === group && versions.some(({ version: one }) => one === wanted));
  return {
    version: version.gitVersion,
    hasMetrics: serves("metrics.k8s.io", "v1beta1"),
    hasKeda: serves("keda.sh", "v1alpha1"),
    hasCnpg: serves("postgresql.cnpg.io", "v1"),
    hasGatewayApi: serves("gateway.networking.k8s.io", "v1"),
    hasSnapshots: serves("snapshot.storage.k8s.io", "v1"),
  };
}

export function capabilitiesOf(traits: ClusterTraits): string[] {
  const found = {
    autoscaling: traits.hasMetrics,
    keda: traits.hasKeda,
    cnpg: traits.hasCnpg,
    "gateway-api": traits.hasGatewayApi,
    snapshots: traits.hasSnapshots,
  };
  return Object.entries(found).flatMap(([name, isThere]) => (isThere ? [name] : []));
}
