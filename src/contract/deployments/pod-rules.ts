import type { ResourceSpec } from "./resource-spec.ts";

/**
 * What a deployer may put into pods. Every field that Kubernetes reads is on a list here, and any other is refused: the API
 * refuses it when it is sent, and a listener refuses it again before it renders a pod. The lists follow the restricted Pod
 * Security Standard (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
 */

/** Rights beyond the standard, which the operator of a listener grants and the listener reports as capabilities. */
export const podRights = ["root-containers", "privileged-containers", "network-volumes"] as const;
export type PodRight = (typeof podRights)[number];

/** A field that a deployer may not set like this. */
export interface PodProblem {
  /** Path inside the resource spec, such as `sidecars[0].securityContext.procMount`. */
  field: string;
  /** Rest of the sentence that starts with the field. */
  because: string;
}

export interface PodRuleOptions {
  /** Capabilities of the listener; those that are no rights are ignored. */
  rights: readonly string[];
  /** Secrets that pods may not read although their names look ordinary, such as the operator's pull secrets. */
  reservedSecrets?: readonly string[];
}

/** Returns the first field of a spec that pods may not have, or null. */
export function findPodProblem(spec: ResourceSpec, options: PodRuleOptions): PodProblem | null {
  for (const [field, rule] of Object.entries(specRules)) {
    const value = spec[field as keyof ResourceSpec];
    const problem = value == null ? null : rule(value, field, options);
    if (problem !== null) return problem;
  }
  return findContradiction(spec);
}

/**
 * Returns whether a name can belong to Pierhead's own objects (its installation, and databases, Redis and secrets of
 * deployments), to a Helm release, or to a token that the cluster made. Their content would give one deployment the rights of
 * another, or of the listener.
 */
export const isReservedName = (name: string): boolean => reservedNames.some((pattern) => pattern.test(name));

const reservedNames = [
  /^pierhead(-|$)/,
  /-[0-9a-f]{8}-(env-[0-9a-f]{10}|redis|postgres(-.+)?)$/,
  /^sh\.helm\.release\./,
  /-(token|dockercfg)-[a-z0-9]{5}$/,
];

/** Returns why pods may not use an object of this name; null: they may. */
export function findNameProblem(
  kind: "Secret" | "ConfigMap" | "PersistentVolumeClaim" | "ServiceAccount",
  name: string,
  reservedSecrets: readonly string[] = [],
): string | null {
  if (isReservedName(name)) return `names the ${kind} '${name}', which is reserved. Use a ${kind} with another name.`;
  if (kind === "Secret" && reservedSecrets.includes(name)) {
    return `names the Secret '${name}', with which the listener pulls images. Use another Secret.`;
  }
  return null;
}

type Rule = (value: unknown, path: string, options: PodRuleOptions) => PodProblem | null;

const refuse = (field: string, because: string): PodProblem => ({ field, because });

/** Types and formats of these are checked by the contract's schemas or by the cluster. */
const any: Rule = () => null;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Null equals absent in every request. */
const shape =
  (fields: Record<string, Rule>): Rule =>
  (value, path, options) => {
    if (!isObject(value)) return refuse(path, "must be an object.");
    for (const [key, inner] of Object.entries(value)) {
      if (inner == null) continue;
      const rule = Object.hasOwn(fields, key) ? fields[key] : undefined;
      if (rule === undefined) {
        const names = Object.keys(fields).join(", ");
        return refuse(`${path}.${key}`, `is not allowed. Allowed fields are ${names}.`);
      }
      const problem = rule(inner, `${path}.${key}`, options);
      if (problem !== null) return problem;
    }
    return null;
  };

const list =
  (rule: Rule): Rule =>
  (value, path, options) => {
    if (!Array.isArray(value)) return refuse(path, "must be a list.");
    for (const [index, item] of value.entries()) {
      const problem = rule(item, `${path}[${index}]`, options);
      if (problem !== null) return problem;
    }
    return null;
  };

const settings: Record<PodRight, string> = {
  "root-containers": "agents.allowRoot",
  "privileged-containers": "agents.allowPrivileged",
  "network-volumes": "agents.allowNetworkVolumes",
};

/** Applies a rule unless the operator has granted one of the rights. */
const unless =
  (rights: readonly PodRight[], rule: Rule): Rule =>
  (value, path, options) => {
    if (rights.some((right) => options.rights.includes(right))) return null;
    const problem = rule(value, path, options);
    if (problem === null) return null;
    const setting = settings[rights[0] as PodRight];
    return refuse(problem.field, `${problem.because} Only the operator of the listener can allow more (${setting}).`);
  };

const oneOf =
  (...allowed: unknown[]): Rule =>
  (value, path) =>
    allowed.includes(value) ? null : refuse(path, `must be ${allowed.join(" or ")}.`);

const nameOf =
  (kind: Parameters<typeof findNameProblem>[0]): Rule =>
  (value, path, { reservedSecrets }) => {
    if (typeof value !== "string") return refuse(path, "must be a name.");
    const because = findNameProblem(kind, value, reservedSecrets);
    return because === null ? null : refuse(path, because);
  };

const userId: Rule = (value, path) =>
  Number.isInteger(value) && Number(value) >= 1 ? null : refuse(path, "must be the number of a user other than root.");

const securityContext = shape({
  runAsUser: unless(["root-containers", "privileged-containers"], userId),
  runAsNonRoot: unless(["root-containers", "privileged-containers"], oneOf(true)),
  runAsGroup: any,
  readOnlyRootFilesystem: any,
  privileged: unless(["privileged-containers"], oneOf(false)),
  allowPrivilegeEscalation: unless(["privileged-containers"], oneOf(false)),
  capabilities: shape({ drop: any, add: unless(["privileged-containers"], list(oneOf("NET_BIND_SERVICE"))) }),
  seccompProfile: shape({ type: oneOf("RuntimeDefault") }),
});

const fromSecret = { optional: any, items: any, name: nameOf("Secret") };
const fromConfigMap = { optional: any, items: any, name: nameOf("ConfigMap") };
const keyOf = (kind: "Secret" | "ConfigMap") => shape({ name: nameOf(kind), key: any, optional: any });

const envVar = shape({
  name: any,
  value: any,
  valueFrom: shape({
    secretKeyRef: keyOf("Secret"),
    configMapKeyRef: keyOf("ConfigMap"),
    fieldRef: any,
    resourceFieldRef: any,
  }),
});

const volumeMount = shape({
  ...{ name: any, mountPath: any, subPath: any, subPathExpr: any, readOnly: any },
  mountPropagation: unless(["privileged-containers"], oneOf("None", "HostToContainer")),
});

const container = shape({
  ...{ name: any, image: any, imagePullPolicy: any, command: any, args: any, workingDir: any },
  ...{ resources: any, restartPolicy: any },
  env: list(envVar),
  envFrom: list(
    shape({
      prefix: any,
      secretRef: shape({ name: nameOf("Secret"), optional: any }),
      configMapRef: shape({ name: nameOf("ConfigMap"), optional: any }),
    }),
  ),
  volumeMounts: list(volumeMount),
  securityContext,
});

/** No `hostPath`, and nothing that holds a token of the cluster. */
const volumeSources: Record<string, Rule> = {
  configMap: shape({ ...fromConfigMap, defaultMode: any }),
  secret: shape({ secretName: nameOf("Secret"), items: any, defaultMode: any, optional: any }),
  emptyDir: shape({ medium: any, sizeLimit: any }),
  persistentVolumeClaim: shape({ claimName: nameOf("PersistentVolumeClaim"), readOnly: any }),
  projected: shape({
    defaultMode: any,
    sources: list(
      shape({ secret: shape(fromSecret), configMap: shape(fromConfigMap), downwardAPI: shape({ items: any }) }),
    ),
  }),
  downwardAPI: shape({ items: any, defaultMode: any }),
  nfs: shape({ server: any, path: any, readOnly: any }),
  csi: shape({ driver: any, fsType: any, readOnly: any, volumeAttributes: any }),
};

const networkSource = unless(["network-volumes"], (_, path) => refuse(path, "is not allowed."));

const volume: Rule = (value, path, options) => {
  const problem = shape({ name: any, ...volumeSources })(value, path, options);
  if (problem !== null) return problem;
  for (const source of ["nfs", "csi"]) {
    if ((value as Record<string, unknown>)[source] == null) continue;
    const refusal = networkSource(value, `${path}.${source}`, options);
    if (refusal !== null) return refusal;
  }
  const given = Object.keys(volumeSources).filter((source) => (value as Record<string, unknown>)[source] != null);
  if ((value as { name?: unknown }).name && given.length === 1) return null;
  return refuse(path, `needs a name and exactly one of ${Object.keys(volumeSources).join(", ")}.`);
};

/**
 * Keys that give a pod the identity of another object in selectors, or change how the cluster runs it. A prefix covers its
 * subdomains: `kubernetes.io/` is also `apps.kubernetes.io/`.
 */
const reservedKeys = ["pierhead.dev/", "kubernetes.io/", "k8s.io/", "cnpg.io/", "keda.sh/", "cncf.io/"];

/** Prefixes and keys by which programs of many clusters give a pod the rights of a cloud account (kube2iam), or directories of its node (Istio). */
const privilegedKeys = [
  ...["iam.amazonaws.com/", "sidecar.istio.io/userVolume", "inject.istio.io/templates"],
  // Routes of Emissary on a Service.
  "getambassador.io/",
];

const keys: Rule = (value, path) => {
  for (const key of Object.keys(value as object)) {
    const owner = `${key.split("/", 1)[0]}/`;
    if (privilegedKeys.some((prefix) => key.startsWith(prefix)))
      return refuse(`${path}.${key}`, "can give a pod rights beyond its own. Choose another key.");
    const isReserved = reservedKeys.some((prefix) => owner === prefix || owner.endsWith(`.${prefix}`));
    if ((key.includes("/") && isReserved) || unprefixedLabels.includes(key)) {
      return refuse(`${path}.${key}`, "belongs to the cluster or to Pierhead. Choose another key.");
    }
  }
  return null;
};

/** Labels by which built-in controllers find their pods. */
const unprefixedLabels = ["pod-template-hash", "controller-revision-hash", "controller-uid", "job-name"];

/** The formats of Kubernetes (https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/). */
const namePattern = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const domainPattern = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

function isKey(key: string): boolean {
  const [name = "", domain, ...more] = key.split("/").toReversed();
  const hasDomain = domain === undefined || (domain.length <= 253 && domainPattern.test(domain));
  return more.length === 0 && hasDomain && namePattern.test(name);
}

const metadata =
  (isUsable: (key: string, value: string) => boolean, because: string): Rule =>
  (value, path, options) => {
    const entries = Object.entries(value as Record<string, string>);
    const found = entries.find(([key, text]) => !isUsable(key, text));
    return keys(value, path, options) ?? (found === undefined ? null : refuse(`${path}.${found[0]}`, because));
  };

const keyFormat =
  "a name of letters, digits, '-', '_' and '.', with 63 characters at most, after a domain and '/' or alone";

const specRules: Partial<Record<keyof ResourceSpec, Rule>> = {
  labels: metadata(
    (key, value) => isKey(key) && (value === "" || namePattern.test(value)),
    `is no label of Kubernetes. A key is ${keyFormat}. A value is such a name, or empty.`,
  ),
  annotations: metadata((key) => isKey(key.toLowerCase()), `is no annotation of Kubernetes. A key is ${keyFormat}.`),
  service_account_name: nameOf("ServiceAccount"),
  // The kubelet pulls with the operator's Secrets, too: a pod cannot read a pull secret.
  image_pull_secrets: list((value, path) =>
    nameOf("Secret")((value as { name: unknown }).name, `${path}.name`, { rights: [] }),
  ),
  volumes: list(volume),
  volume_mounts: list(volumeMount),
  init_containers: list(container),
  sidecars: list(container),
};

/** Containers that a listener adds itself. */
const ownContainers = ["api-server", "queue", "core"];

function findContradiction(spec: ResourceSpec): PodProblem | null {
  const volumes = new Set((spec.volumes ?? []).map(({ name }) => name));
  const names = new Set(ownContainers);
  const mounts: [string, ResourceSpec["volume_mounts"]][] = [["volume_mounts", spec.volume_mounts]];
  for (const field of ["init_containers", "sidecars"] as const) {
    for (const [index, { name, volumeMounts }] of (spec[field] ?? []).entries()) {
      const path = `${field}[${index}]`;
      if (names.has(name)) return refuse(`${path}.name`, `'${name}' is already in use. Choose another name.`);
      names.add(name);
      mounts.push([`${path}.volumeMounts`, volumeMounts]);
    }
  }
  for (const [path, of] of mounts) {
    for (const [index, { name }] of (of ?? []).entries()) {
      if (!volumes.has(name)) {
        return refuse(`${path}[${index}].name`, `'${name}' is not one of the volumes. Add it to volumes.`);
      }
    }
  }
  return null;
}
