import type { ResourceSpec } from "../../../contract/deployments/resource-spec.ts";
import type { ClusterPolicy } from "../cluster-context.ts";
import { labelPrefix } from "../render/names.ts";
import { UnusableWorkload, type Workload } from "../workload.ts";

const ownContainers = ["api-server", "queue", "core"];
const volumeSources = [
  "configMap",
  "secret",
  "emptyDir",
  "persistentVolumeClaim",
  "projected",
  "downwardAPI",
  "nfs",
  "csi",
] as const;
const networkSources: readonly string[] = ["nfs", "csi"];

/**
 * Rejects what the API server would reject with a message that only operators understand, and what would reach beyond the
 * deployment's own pods.
 * @throws UnusableWorkload
 */
export function checkWorkload({ cluster }: Workload, policy: ClusterPolicy): void {
  const { spec } = cluster;
  checkKeys("label", spec.labels ?? {}, ["app.kubernetes.io/"]);
  checkKeys("annotation", spec.annotations ?? {}, ["kubernetes.io/", "k8s.io/"]);
  checkVolumes(spec, policy);
  checkContainers(spec, policy);
}

function checkKeys(what: string, map: Record<string, string>, reserved: string[]): void {
  for (const key of Object.keys(map)) {
    const owner = key.split("/")[0] ?? "";
    const isReserved = reserved.some((prefix) => `${owner}/` === prefix || `${owner}/`.endsWith(`.${prefix}`));
    if (key.startsWith(labelPrefix) || isReserved) {
      throw new UnusableWorkload(
        `The ${what} '${key}' of resource_spec belongs to the cluster or to Pierhead. Choose another key.`,
      );
    }
  }
}

function checkVolumes({ volumes, volume_mounts: mounts }: ResourceSpec, policy: ClusterPolicy): void {
  const names = new Set<string>();
  for (const volume of volumes ?? []) {
    const name = volume.name ?? "";
    const sources = volumeSources.filter((source) => volume[source] != null);
    const unknown = Object.keys(volume).filter(
      (key) => key !== "name" && !volumeSources.some((source) => source === key),
    );
    if (name === "" || sources.length !== 1 || unknown.length > 0) {
      const offered = volumeSources.join(", ");
      throw new UnusableWorkload(`The volume '${name}' of resource_spec needs a name and exactly one of ${offered}.`);
    }
    if (networkSources.includes(sources[0] as string) && !policy.allowsNetworkVolumes) {
      throw new UnusableWorkload(
        `The volume '${name}' is of kind ${sources[0]}, which the operator of this listener does not allow.`,
      );
    }
    names.add(name);
  }
  for (const { name } of mounts ?? []) {
    if (!names.has(name ?? ""))
      throw new UnusableWorkload(
        `volume_mounts refers to the volume '${name}', which does not exist. Add it to volumes.`,
      );
  }
}

function checkContainers({ init_containers: init, sidecars }: ResourceSpec, policy: ClusterPolicy): void {
  const names = new Set(ownContainers);
  for (const container of [...(init ?? []), ...(sidecars ?? [])]) {
    if (names.has(container.name)) {
      throw new UnusableWorkload(
        `The container name '${container.name}' is already in use. Choose another one in resource_spec.`,
      );
    }
    names.add(container.name);
    const security = (container.securityContext ?? {}) as { privileged?: boolean; capabilities?: { add?: unknown[] } };
    const isPrivileged = security.privileged === true || (security.capabilities?.add?.length ?? 0) > 0;
    if (isPrivileged && !policy.allowsPrivileged) {
      throw new UnusableWorkload(
        `The container '${container.name}' requests rights on the node, which the operator of this listener does not allow.`,
      );
    }
  }
}
