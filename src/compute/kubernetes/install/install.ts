import { listenerRules, programRules } from "./role.ts";

export interface InstallOptions {
  name: string;
  /** Namespace of the listener itself. */
  namespace: string;
  /** Namespaces for agents, without the listener's own. The first one is the default. */
  namespaces: string[];
  controlPlaneUrl: string;
  listenerKey: string;
  image: string;
  version: string;
  replicas: number;
  agentsUrl: string;
  gateway: string;
  ingressClass: string;
  /** Whether the listener may run programs in pods and connect to their ports. */
  mayRunPrograms: boolean;
}

/** Returns the same manifests as `helm template pierhead-listener` with the same options and no gateway; a test compares them. */
export function installManifests(options: InstallOptions): object[] {
  const { name, namespace, namespaces, listenerKey, replicas } = options;
  const labels = { ...selectorOf(options), "app.kubernetes.io/version": options.version };
  const metadata = { name, namespace, labels };
  const rbac = "rbac.authorization.k8s.io";
  const rules = options.mayRunPrograms ? [...listenerRules, ...programRules] : listenerRules;
  const budget = { apiVersion: "policy/v1", kind: "PodDisruptionBudget", metadata };
  return [
    ...namespaces.map((one) => namespaceOfAgents(one, labels)),
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    ...namespaces.flatMap((one) => [
      { apiVersion: `${rbac}/v1`, kind: "Role", metadata: { ...metadata, namespace: one }, rules },
      {
        apiVersion: `${rbac}/v1`,
        kind: "RoleBinding",
        metadata: { ...metadata, namespace: one },
        roleRef: { apiGroup: rbac, kind: "Role", name },
        subjects: [{ kind: "ServiceAccount", name, namespace }],
      },
    ]),
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { ...metadata, name: `${name}-key` },
      type: "Opaque",
      stringData: { key: listenerKey },
    },
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata,
      spec: {
        replicas,
        selector: { matchLabels: selectorOf(options) },
        template: { metadata: { labels }, spec: podOf(options) },
      },
    },
    ...(replicas > 1
      ? [{ ...budget, spec: { maxUnavailable: 1, selector: { matchLabels: selectorOf(options) } } }]
      : []),
  ];
}

/** In it, the cluster itself refuses pods that do not meet the restricted Pod Security Standard. */
const namespaceOfAgents = (name: string, labels: object) => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: {
    name,
    labels: { ...labels, "pod-security.kubernetes.io/enforce": "restricted" },
    // Helm must not delete the agents together with their listener.
    annotations: { "helm.sh/resource-policy": "keep" },
  },
});

const selectorOf = ({ name }: InstallOptions) => ({
  "app.kubernetes.io/name": "pierhead-listener",
  "app.kubernetes.io/instance": name,
});

function podOf(options: InstallOptions): object {
  const { name } = options;
  const probe = (path: string, times: object) => ({ httpGet: { path, port: "http" }, ...times });
  const container = {
    name: "listener",
    image: options.image,
    imagePullPolicy: "IfNotPresent",
    args: ["listener"],
    env: Object.entries(environmentOf(options)).map(([key, value]) => ({ name: key, value })),
    ports: [{ name: "http", containerPort: 8125, protocol: "TCP" }],
    startupProbe: probe("/ok", { periodSeconds: 2, failureThreshold: 30 }),
    livenessProbe: probe("/ok", { periodSeconds: 15, timeoutSeconds: 5 }),
    readinessProbe: probe("/ready", { periodSeconds: 10, timeoutSeconds: 5 }),
    resources: { requests: { cpu: "50m", memory: "128Mi" }, limits: { memory: "512Mi" } },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    volumeMounts: [
      { name: "key", mountPath: "/etc/pierhead", readOnly: true },
      { name: "data", mountPath: "/var/lib/pierhead" },
    ],
  };
  return {
    serviceAccountName: name,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 1000,
      runAsGroup: 1000,
      fsGroup: 1000,
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [container],
    volumes: [
      { name: "key", secret: { secretName: `${name}-key` } },
      { name: "data", emptyDir: {} },
    ],
    topologySpreadConstraints: [
      {
        maxSkew: 1,
        topologyKey: "kubernetes.io/hostname",
        whenUnsatisfiable: "ScheduleAnyway",
        labelSelector: { matchLabels: selectorOf(options) },
      },
    ],
  };
}

function environmentOf(options: InstallOptions): Record<string, string> {
  return {
    PIERHEAD_URL: options.controlPlaneUrl,
    PIERHEAD_LISTENER_KEY_FILE: "/etc/pierhead/key",
    PIERHEAD_COMPUTE: "kubernetes",
    PIERHEAD_KUBERNETES_NAMESPACES: options.namespaces.join(","),
    PIERHEAD_KUBERNETES_LEASE: options.name,
    PIERHEAD_AGENTS_URL: options.agentsUrl,
    PIERHEAD_KUBERNETES_GATEWAY: options.gateway,
    PIERHEAD_KUBERNETES_INGRESS_CLASS: options.ingressClass,
    PIERHEAD_KUBERNETES_ROUTE_ANNOTATIONS: "{}",
    PIERHEAD_KUBERNETES_PULL_SECRETS: "",
    PIERHEAD_KUBERNETES_ALLOW_ROOT: "false",
    PIERHEAD_KUBERNETES_AGENT_USER: "1000",
    PIERHEAD_KUBERNETES_ALLOW_PRIVILEGED: "false",
    PIERHEAD_KUBERNETES_ALLOW_NETWORK_VOLUMES: "false",
    PIERHEAD_KUBERNETES_POSTGRES_IMAGE: "",
    PIERHEAD_KUBERNETES_POSTGRES_USER: "999",
    PIERHEAD_KUBERNETES_REDIS_IMAGE: "",
    PIERHEAD_KUBERNETES_DATA_POLICY: "delete",
    PIERHEAD_KUBERNETES_SNAPSHOT_CLASS: "",
    PIERHEAD_DATA_DIR: "/var/lib/pierhead",
    PIERHEAD_LOG_LEVEL: "info",
    HOST: "0.0.0.0",
    PORT: "8125",
  };
}
