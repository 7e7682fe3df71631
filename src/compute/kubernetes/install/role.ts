/**
 * Rules of the installed Role: what a listener may do in each of its namespaces, and nothing else anywhere. It cannot read
 * Secrets, not even its own. `patch` would reveal their content, so it creates and deletes Secrets but never changes them.
 */
const change = ["get", "list", "watch", "create", "patch", "delete"];
const read = ["get", "list", "watch"];

export const listenerRules = [
  { apiGroups: [""], resources: ["configmaps", "services", "serviceaccounts"], verbs: change },
  // Children name the anchor as an owner whose deletion waits for them.
  { apiGroups: [""], resources: ["configmaps/finalizers"], verbs: ["update"] },
  { apiGroups: [""], resources: ["secrets"], verbs: ["create", "delete"] },
  { apiGroups: [""], resources: ["persistentvolumeclaims"], verbs: ["get", "list", "watch", "patch", "delete"] },
  { apiGroups: ["snapshot.storage.k8s.io"], resources: ["volumesnapshots"], verbs: ["get", "create"] },
  { apiGroups: [""], resources: ["pods", "events"], verbs: read },
  { apiGroups: [""], resources: ["pods/log"], verbs: ["get"] },
  { apiGroups: ["metrics.k8s.io"], resources: ["pods"], verbs: ["get", "list"] },
  { apiGroups: ["apps"], resources: ["deployments", "statefulsets"], verbs: [...change, "update"] },
  { apiGroups: ["apps"], resources: ["replicasets"], verbs: read },
  { apiGroups: ["autoscaling"], resources: ["horizontalpodautoscalers"], verbs: [...change, "update"] },
  { apiGroups: ["policy"], resources: ["poddisruptionbudgets"], verbs: [...change, "update"] },
  { apiGroups: ["networking.k8s.io"], resources: ["ingresses", "networkpolicies"], verbs: [...change, "update"] },
  { apiGroups: ["gateway.networking.k8s.io"], resources: ["httproutes"], verbs: [...change, "update"] },
  { apiGroups: ["keda.sh"], resources: ["scaledobjects", "triggerauthentications"], verbs: [...change, "update"] },
  { apiGroups: ["postgresql.cnpg.io"], resources: ["clusters"], verbs: [...change, "update"] },
  { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get", "create", "update"] },
];

/** What a listener may do besides, where the operator allows it: run programs in pods, and connect to their ports. */
export const programRules = [
  // Newer API servers ask for `create` also when the connection is a WebSocket.
  { apiGroups: [""], resources: ["pods/exec", "pods/portforward"], verbs: ["get", "create"] },
];

/** What the gateway in the cluster may do in each namespace of agents: follow where they run, and wake them. */
export const gatewayRules = [
  { apiGroups: [""], resources: ["services"], verbs: read },
  { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: read },
  { apiGroups: ["apps"], resources: ["deployments"], verbs: read },
  { apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"] },
];

/** What a listener may do in the namespace of its builds. It cannot read the Secret with the credentials of the registry. */
export const buildRules = [
  { apiGroups: ["batch"], resources: ["jobs"], verbs: ["get", "list", "create", "delete"] },
  { apiGroups: [""], resources: ["secrets"], verbs: ["create", "delete"] },
  { apiGroups: [""], resources: ["pods"], verbs: ["list"] },
  { apiGroups: [""], resources: ["pods/log"], verbs: ["get"] },
];
