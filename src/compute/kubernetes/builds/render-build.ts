import type { ImageRemoval } from "../../../contract/listeners/image-removal.ts";
import type { ImageBuild } from "../../image-builds.ts";
import type { Manifest } from "../api/manifest.ts";
import { listenerLabel, managedBy, managedByLabel } from "../render/names.ts";

/** What the operator of the listener decides about builds. */
export interface BuildPolicy {
  namespace: string;
  /** Repository to which images are pushed, with the registry's host. */
  registry: string;
  /** The registry speaks HTTP. Only for registries inside the cluster. */
  isInsecure: boolean;
  /**
   * Secret of type `kubernetes.io/dockerconfigjson` in that namespace; null: the registry needs no credentials. Nodes use it
   * too, to pull the two images of the pod.
   */
  registrySecret: string | null;
  /** Image with rootless BuildKit: sh, rootlesskit, buildkitd and buildctl for user 1000. */
  builderImage: string;
  /** Pierhead's own image, whose program pushes. */
  pushImage: string;
  /** The programs in that image. */
  programs: { push: string; restoreCache: string; removeImages: string };
  /** Whether builds of a deployment reuse steps of earlier ones, which the registry keeps. */
  hasCache: boolean;
  memoryMib: number;
  cpuCores: number;
  nodeSelector: Record<string, string>;
  /** In the format of a pod. */
  tolerations: object[];
}

export const buildLabel = "pierhead.dev/build";

export const cacheContainer = "cache";
export const buildContainer = "build";
export const pushContainer = "push";
export const removeContainer = "remove";

/** Key in the Secret of a build. */
const contextKey = "context-url";

export const buildName = (id: string) => `build-${id}`;

/** Exit code of a builder that does not start. */
export const builderFailedCode = 90;

/**
 * Builds the image. Programs of the project run in this container and can read everything in it, so it has no credentials.
 */
const buildScript = `set -u
export HOME=/home/user XDG_RUNTIME_DIR=/run/user/1000 USER=user
socket=unix:///run/user/1000/buildkitd.sock
if [ "$INSECURE_REGISTRY" != "" ]; then printf '[registry."%s"]\\n  http = true\\n' "$INSECURE_REGISTRY" > /tmp/buildkitd.toml; else : > /tmp/buildkitd.toml; fi
rootlesskit --state-dir=/tmp/rootlesskit buildkitd --config /tmp/buildkitd.toml --addr "$socket" --oci-worker-no-process-sandbox --oci-worker-net host > /tmp/buildkitd.log 2>&1 &
tries=0
until buildctl --addr "$socket" debug workers > /dev/null 2>&1; do
  tries=$((tries + 1))
  if [ "$tries" -gt 150 ]; then echo "pierhead: BuildKit does not start:" >&2; cat /tmp/buildkitd.log >&2; exit ${builderFailedCode}; fi
  sleep 0.2
done
set -- --progress=plain --frontend dockerfile.v0 --opt "context=$CONTEXT_URL" --opt "filename=$DOCKERFILE" --output type=oci,dest=/image,tar=false
if [ -d /cache ]; then set -- "$@" --export-cache type=local,dest=/cache,mode=max,image-manifest=true,oci-mediatypes=true,ignore-error=true; fi
if [ -e /cache/index.json ]; then set -- "$@" --import-cache type=local,src=/cache; fi
exec buildctl --addr "$socket" build "$@"
`;

/** Time for the pod to be scheduled and to pull its images, beyond the time of the build. */
const startMarginS = 120;

/** The Job goes away even if the listener never comes back. */
const keptAfterEndS = 600;

const mib = 1024 * 1024;

/** Returns the Job of a build. Its Secret is created after it, so that it belongs to the Job. */
export function renderBuildJob(build: ImageBuild, policy: BuildPolicy, listenerId: string): Manifest {
  const name = buildName(build.id);
  const labels = { [managedByLabel]: managedBy, [listenerLabel]: listenerId, [buildLabel]: build.id };
  const size = `${Math.ceil((2 * build.diskBytesMax) / mib)}Mi`;
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, namespace: policy.namespace, labels },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: build.timeoutS + startMarginS,
      ttlSecondsAfterFinished: keptAfterEndS,
      template: {
        metadata: { labels },
        spec: {
          ...podOf(policy),
          initContainers: [...(policy.hasCache ? [cacheReaderOf(build, policy)] : []), builderOf(build, policy)],
          containers: [pusherOf(build, policy)],
          securityContext: { fsGroup: 1000 },
          volumes: [
            ...["image", "state", ...(policy.hasCache ? ["cache"] : [])].map((volume) => ({
              name: volume,
              emptyDir: { sizeLimit: size },
            })),
            ...["run", "tmp"].map((volume) => ({ name: volume, emptyDir: { sizeLimit: "1Gi" } })),
            ...registryVolumes(policy),
          ],
        },
      },
    },
  };
}

/** Returns the Job that removes images from the registry. Its name and labels are those of a build, so it is cleaned up like one. */
export function renderRemovalJob(removal: ImageRemoval, policy: BuildPolicy, listenerId: string): Manifest {
  const { removal_id: id, references, timeout_s: timeoutS } = removal;
  const labels = { [managedByLabel]: managedBy, [listenerLabel]: listenerId, [buildLabel]: id };
  const command = ["node", policy.programs.removeImages, policy.registry, ...references];
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: buildName(id), namespace: policy.namespace, labels },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: timeoutS,
      ttlSecondsAfterFinished: keptAfterEndS,
      template: {
        metadata: { labels },
        spec: {
          ...podOf(policy),
          containers: [ownContainer(policy, { name: removeContainer, command, volumeMounts: [] })],
          volumes: registryVolumes(policy),
        },
      },
    },
  };
}

/** Returns what the pods of builds and removals have in common. */
const podOf = ({ nodeSelector, tolerations, registrySecret }: BuildPolicy) => ({
  restartPolicy: "Never",
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  nodeSelector,
  tolerations,
  ...(registrySecret !== null && { imagePullSecrets: [{ name: registrySecret }] }),
});

const registryVolumes = ({ registrySecret }: BuildPolicy): object[] =>
  registrySecret === null
    ? []
    : // Optional, because the pod would wait for a missing Secret without a reason. The program reports it.
      [{ name: "registry", secret: { secretName: registrySecret, optional: true } }];

function builderOf(build: ImageBuild, policy: BuildPolicy): object {
  const contextUrl = { secretKeyRef: { name: buildName(build.id), key: contextKey } };
  const host = policy.registry.split("/")[0] ?? "";
  const limits = { cpu: String(policy.cpuCores), memory: `${policy.memoryMib}Mi` };
  return {
    name: buildContainer,
    image: policy.builderImage,
    command: ["sh", "-c", buildScript],
    env: [
      { name: "CONTEXT_URL", valueFrom: contextUrl },
      { name: "DOCKERFILE", value: build.dockerfile },
      { name: "INSECURE_REGISTRY", value: policy.isInsecure ? host : "" },
    ],
    resources: { limits, requests: { cpu: "100m", memory: "256Mi" } },
    // newuidmap and newgidmap set up the user namespace in which BuildKit is root. RUN steps need system calls
    // that the runtime's filter refuses.
    securityContext: {
      runAsUser: 1000,
      runAsGroup: 1000,
      runAsNonRoot: true,
      capabilities: { drop: ["ALL"], add: ["SETUID", "SETGID"] },
      seccompProfile: { type: "Unconfined" },
      appArmorProfile: { type: "Unconfined" },
    },
    volumeMounts: [
      { name: "image", mountPath: "/image" },
      { name: "state", mountPath: "/home/user/.local/share/buildkit" },
      { name: "run", mountPath: "/run/user/1000" },
      { name: "tmp", mountPath: "/tmp" },
      ...(policy.hasCache ? [{ name: "cache", mountPath: "/cache" }] : []),
    ],
  };
}

/** The tag does not change, so the registry keeps one cache for each deployment. */
const cacheTagOf = ({ deploymentId }: ImageBuild) => `cache-${deploymentId}`;

function cacheReaderOf(build: ImageBuild, policy: BuildPolicy): object {
  const { programs, registry } = policy;
  const command = ["node", programs.restoreCache, "/cache", registry, cacheTagOf(build), String(build.diskBytesMax)];
  return ownContainer(policy, {
    name: cacheContainer,
    command,
    volumeMounts: [{ name: "cache", mountPath: "/cache" }],
  });
}

function pusherOf(build: ImageBuild, policy: BuildPolicy): object {
  const { programs, registry, hasCache } = policy;
  const command = ["node", programs.push, "/image", registry, build.tag];
  return ownContainer(policy, {
    name: pushContainer,
    command: [...command, ...(hasCache ? ["/cache", cacheTagOf(build)] : [])],
    volumeMounts: [
      { name: "image", mountPath: "/image", readOnly: true },
      ...(hasCache ? [{ name: "cache", mountPath: "/cache", readOnly: true }] : []),
    ],
  });
}

/** A container with a program of Pierhead and the credentials of the registry. */
function ownContainer(
  policy: BuildPolicy,
  { name, command, volumeMounts }: { name: string; command: string[]; volumeMounts: object[] },
): object {
  return {
    name,
    image: policy.pushImage,
    command,
    env: [
      { name: "PIERHEAD_REGISTRY_INSECURE", value: String(policy.isInsecure) },
      ...(policy.registrySecret === null
        ? []
        : [{ name: "PIERHEAD_REGISTRY_AUTH_FILE", value: "/registry/.dockerconfigjson" }]),
    ],
    resources: { limits: { memory: "512Mi" }, requests: { cpu: "50m", memory: "64Mi" } },
    securityContext: {
      runAsUser: 1000,
      runAsGroup: 1000,
      runAsNonRoot: true,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    },
    volumeMounts: [
      ...volumeMounts,
      ...(policy.registrySecret === null ? [] : [{ name: "registry", mountPath: "/registry", readOnly: true }]),
    ],
  };
}

/** Returns the Secret with the URL of the context, which ends with its Job. */
export function renderBuildSecret(build: ImageBuild, job: Manifest, uid: string): Manifest {
  const { name, namespace, labels } = job.metadata;
  const owner = { apiVersion: "batch/v1", kind: "Job", name, uid, blockOwnerDeletion: false };
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace, ...(labels && { labels }), ownerReferences: [owner] },
    type: "Opaque",
    stringData: { [contextKey]: build.contextUrl },
  } as Manifest;
}
