import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { pathOf } from "../../../src/compute/kubernetes/api/kinds.ts";
import type { Manifest } from "../../../src/compute/kubernetes/api/manifest.ts";
import { checkWorkload } from "../../../src/compute/kubernetes/apply/check-workload.ts";
import type { ClusterPolicy } from "../../../src/compute/kubernetes/cluster-context.ts";
import { render } from "../../../src/compute/kubernetes/render/render.ts";
import type { Workload } from "../../../src/compute/kubernetes/workload.ts";
import type { ResourceSpec } from "../../../src/contract/deployments/resource-spec.ts";
import type { SecretReference } from "../../../src/contract/listeners/cluster.ts";
import { effectiveSizes } from "../../../src/domain/sizes.ts";

interface Security {
  runAsNonRoot?: boolean;
  runAsUser?: number;
  runAsGroup?: number;
  fsGroup?: number;
  fsGroupChangePolicy?: string;
  allowPrivilegeEscalation?: boolean;
  privileged?: boolean;
  capabilities?: { add?: string[]; drop?: string[] };
  seccompProfile?: { type: string };
}

interface Pod {
  automountServiceAccountToken?: boolean;
  securityContext?: Security;
  containers: { name: string; securityContext?: Security }[];
  initContainers?: { name: string; securityContext?: Security }[];
}

const extra: ResourceSpec = {
  queue_cpu: 1,
  service_account_name: "mine",
  init_containers: [{ name: "init", image: "registry.example.com/init:1" }],
  sidecars: [
    {
      name: "proxy",
      image: "registry.example.com/proxy:1",
      securityContext: { runAsUser: 101, capabilities: { drop: ["NET_RAW"], add: ["NET_BIND_SERVICE"] } },
    },
    { name: "other", image: "registry.example.com/other:1", securityContext: { allowPrivilegeEscalation: null } },
  ],
};

test("every pod of a deployment meets the restricted Pod Security Standard and gets no token of the cluster", () => {
  const pods = podsOf(extra);
  assert.deepEqual(Object.keys(pods).toSorted(), ["agent", "agent-postgres", "agent-queue", "agent-redis"]);
  for (const [name, pod] of Object.entries(pods)) {
    assert.equal(pod.automountServiceAccountToken, false, name);
    assert.equal(pod.securityContext?.runAsNonRoot, true, name);
    assert.deepEqual(pod.securityContext?.seccompProfile, { type: "RuntimeDefault" }, name);
    const containers = [...pod.containers, ...(pod.initContainers ?? [])];
    if (!/redis|postgres/.test(name)) assert.equal(containers.length, 5, name);
    for (const { name: container, securityContext } of containers) {
      assert.equal(securityContext?.allowPrivilegeEscalation, false, `${name} ${container}`);
      assert.deepEqual(securityContext?.capabilities?.drop, ["ALL"], `${name} ${container}`);
      assert.notEqual(securityContext?.runAsUser, 0, `${name} ${container}`);
    }
  }
});

test("the agent's own containers run as a user by number, and extra containers as the user of their image or spec", () => {
  const { agent } = podsOf(extra);
  const users = [...(agent?.initContainers ?? []), ...(agent?.containers ?? [])].map(({ name, securityContext }) => [
    name,
    securityContext?.runAsUser,
  ]);
  assert.deepEqual(users, [
    ["init", undefined],
    ["api-server", 1000],
    ["core", 1000],
    ["proxy", 101],
    ["other", undefined],
  ]);
  assert.deepEqual(agent?.securityContext?.fsGroup, 1000);
  assert.deepEqual(agent?.containers[2]?.securityContext?.capabilities, { drop: ["ALL"], add: ["NET_BIND_SERVICE"] });
  const ofImage = podsOf({}, { agentUser: 0 })["agent"];
  assert.equal(ofImage?.containers[0]?.securityContext?.runAsUser, undefined);
  assert.equal(ofImage?.securityContext?.runAsNonRoot, true);
});

test("PostgreSQL and Redis start as the users of their images, without a change of user, and own their disks", () => {
  const pods = podsOf({}, { postgresUser: 70 });
  const { "agent-postgres": postgres, "agent-redis": redis } = pods;
  const { runAsUser, runAsGroup, fsGroup, fsGroupChangePolicy } = postgres?.securityContext ?? {};
  assert.deepEqual([runAsUser, runAsGroup, fsGroup, fsGroupChangePolicy], [70, 70, 70, "OnRootMismatch"]);
  assert.deepEqual([redis?.securityContext?.runAsUser, redis?.securityContext?.runAsGroup], [999, 999]);
});

test("only the operator lets agents run as root", () => {
  const root = podsOf(extra, { allowsRoot: true });
  const security = root["agent"]?.containers[0]?.securityContext;
  assert.deepEqual(security, { allowPrivilegeEscalation: false });
  assert.deepEqual(root["agent"]?.securityContext, { seccompProfile: { type: "RuntimeDefault" } });
  assert.equal(root["agent-postgres"]?.securityContext?.runAsNonRoot, true);
  const asRoot = { sidecars: [{ name: "s", image: "s", securityContext: { runAsUser: 0 } }] };
  assert.throws(() => podsOf(asRoot), /sidecars\[0\]\.securityContext\.runAsUser must be.*agents\.allowRoot/);
  assert.doesNotThrow(() => podsOf(asRoot, { allowsRoot: true }));
});

test("privileged sidecars of an operator's permission are rendered in a form that a cluster accepts", () => {
  const sidecars = [
    { name: "a", image: "a", securityContext: { privileged: true } },
    { name: "b", image: "b", securityContext: { capabilities: { add: ["SYS_ADMIN"] } } },
    { name: "c", image: "c", securityContext: { runAsUser: 0 } },
  ];
  const pod = podsOf({ sidecars }, { allowsPrivileged: true })["agent"];
  assert.deepEqual(
    pod?.containers.slice(2).map(({ securityContext }) => securityContext),
    [
      { runAsNonRoot: false, privileged: true },
      { capabilities: { add: ["SYS_ADMIN"], drop: ["ALL"] } },
      { runAsNonRoot: false, allowPrivilegeEscalation: false, runAsUser: 0, capabilities: { drop: ["ALL"] } },
    ],
  );
});

test("a listener refuses what the API should have refused", () => {
  const refused: [ResourceSpec, RegExp][] = [
    [{ service_account_name: "pierhead-listener" }, /service_account_name names the ServiceAccount/],
    [{ volumes: [{ name: "v", secret: { secretName: "x-1234abcd-env-0123456789" } }] }, /secretName names the Secret/],
    [{ volumes: [{ name: "v", projected: { sources: [{ serviceAccountToken: {} }] } }] }, /serviceAccountToken is not/],
    [{ volumes: [{ name: "v", hostPath: { path: "/" } } as never] }, /hostPath is not allowed/],
    [{ volumes: [{ name: "v", emptyDir: {}, configMap: {} }] }, /needs a name and exactly one of/],
    [{ volumes: [{ name: "v", nfs: { server: "x", path: "/" } }] }, /nfs is not allowed.*agents\.allowNetworkVolumes/],
    [{ volume_mounts: [{ name: "nowhere", mountPath: "/x" }] }, /is not one of the volumes/],
    [{ sidecars: [{ name: "api-server", image: "x" }] }, /is already in use/],
    [{ sidecars: [{ name: "s", image: "x", securityContext: { procMount: "Unmasked" } }] }, /procMount is not allowed/],
    [{ sidecars: [{ name: "s", image: "x", ports: [{ hostPort: 1 }] } as never] }, /ports is not allowed/],
    [{ labels: { "app.kubernetes.io/name": "x" } }, /belongs to the cluster or to Pierhead/],
    [{ annotations: { "deployment.kubernetes.io/revision": "9" } }, /belongs to the cluster or to Pierhead/],
  ];
  for (const [spec, message] of refused) assert.throws(() => podsOf(spec), message);
  const reference = (secret_name: string) => [{ name: "A", secret_name, secret_key: "a" }];
  assert.throws(() => podsOf({}, {}, reference("x-1234abcd-postgres")), /secret reference 'A' names the Secret/);
});

test("agents can neither mount nor read the Secrets with which the operator pulls images", () => {
  const pulls = { imagePullSecrets: ["registry"] };
  const mounted = { volumes: [{ name: "v", secret: { secretName: "registry" } }] };
  assert.throws(() => podsOf(mounted, pulls), /with which the listener pulls images/);
  const reference = [{ name: "A", secret_name: "registry", secret_key: "a" }];
  assert.throws(() => podsOf({}, pulls, reference), /with which the listener pulls images/);
  assert.doesNotThrow(() => podsOf({ image_pull_secrets: [{ name: "registry" }] }, pulls));
  assert.doesNotThrow(() => podsOf({ volumes: [{ name: "v", configMap: { name: "registry" } }] }, pulls));
});

/** Returns the pods of a checked and rendered deployment by the name of their object. */
const agentsUrls = [
  { agentsUrl: "https://{slug}.agents.example.com", own: "https://agent-1234abcd.agents.example.com" },
  { agentsUrl: "https://agents.example.com/d/{slug}", own: "https://agents.example.com/d/agent-1234abcd" },
  { agentsUrl: "http://{slug}.{namespace:agents}.svc:8000", own: "http://agent-1234abcd.other.svc:8000" },
];

test("a custom_url must not take the host of Pierhead or of other agents, and may take any other", () => {
  const check = (url: string, changed: Partial<ClusterPolicy>, isServing = false) => {
    const workload = workloadWith({}, []);
    checkWorkload({ ...workload, isServing, cluster: { ...workload.cluster, url } }, { ...policy, ...changed });
  };
  const ownHosts = ["pierhead.example.com"];
  const foreign = [
    ["https://victim-1234abcd.agents.example.com/threads", "https://VICTIM.agents.example.com/agent-1234abcd"],
    ["https://agents.example.com/", "https://agents.example.com:8443/d/victim-1234abcd/threads"],
    ["http://victim-1234abcd.agents.svc/threads", "https://victim.other.svc"],
  ];
  for (const [index, { agentsUrl, own }] of agentsUrls.entries()) {
    const changed = { agentsUrl, ownHosts };
    for (const url of foreign[index] ?? []) {
      assert.throws(() => check(url, changed), /custom_url has the host of other agents/, url);
      check(url, changed, true);
    }
    for (const url of ["https://pierhead.example.com", "http://PIERHEAD.example.com:81/v2"])
      assert.throws(() => check(url, changed), /custom_url has the host of Pierhead/, url);
    for (const url of [own, `${own}/sub`, "https://support.example.com/threads", "https://a.b.agents.example.com"])
      check(url, changed);
  }
});

test("a route has the operator's annotations only, because they configure a controller that all routes share", () => {
  const workload = workloadWith(
    { annotations: { "haproxy.org/backend-config-snippet": "x", "example.com/auth": "no" } },
    [],
  );
  for (const given of [{ ingressClass: "haproxy" }, { gateway: { namespace: "infra", name: "web" } }]) {
    const changed = { ...policy, ...given, routeAnnotations: { "example.com/auth": "yes" } };
    const { rest } = render(workload, {
      traits: { ...traits, hasGatewayApi: true },
      policy: changed,
      database: "external",
    });
    const route = rest.find(({ kind }) => kind === "Ingress" || kind === "HTTPRoute");
    assert.deepEqual(route?.metadata["annotations"], { "example.com/auth": "yes" });
  }
});

test("a name that leads to another path of the cluster's API must not be read", () => {
  for (const name of ["../secrets/x", "..", ".", "a/b", "a?watch=true", "a%2fb", "a b"])
    assert.throws(() => pathOf("ServiceAccount", "agents", name), /is not a valid name of a ServiceAccount/, name);
  assert.equal(pathOf("Pod", "agents", "a.b-c"), "/api/v1/namespaces/agents/pods/a.b-c");
});

function podsOf(
  spec: ResourceSpec,
  changed: Partial<ClusterPolicy> = {},
  secretReferences: SecretReference[] = [],
): Record<string, Pod> {
  const context = { traits, policy: { ...policy, ...changed }, database: "plain" as const };
  const workload = workloadWith(spec, secretReferences);
  checkWorkload(workload, context.policy);
  const { data, rest } = render(workload, context);
  const pods = [...data, ...rest].flatMap((manifest: Manifest) => {
    const { template } = (manifest["spec"] ?? {}) as { template?: { spec: Pod } };
    return template === undefined ? [] : [[manifest.metadata.name.replace("-1234abcd", ""), template.spec] as const];
  });
  return Object.fromEntries(pods);
}

const traits = {
  ...{ hasMetrics: false, hasKeda: false, hasCnpg: false, hasSnapshots: false, hasGatewayApi: false },
  version: "v1.34",
};

const policy: ClusterPolicy = {
  gateway: null,
  ingressClass: null,
  routeAnnotations: {},
  hasAgentGateway: false,
  agentGatewayHosts: [],
  agentsUrl: null,
  ownHosts: [],
  imagePullSecrets: [],
  builtImages: null,
  allowsRoot: false,
  allowsPrivileged: false,
  allowsNetworkVolumes: false,
  agentUser: 1000,
  postgresImage: "postgres",
  postgresUser: 999,
  redisImage: "redis",
  dataPolicy: "delete",
  snapshotClass: null,
};

function workloadWith(spec: ResourceSpec, secretReferences: SecretReference[]): Workload {
  return {
    deploymentId: randomUUID(),
    tenantId: randomUUID(),
    revisionId: randomUUID(),
    listenerId: randomUUID(),
    slug: "agent-1234abcd",
    ...{ isServing: false, maySleep: false, generation: 1, epoch: 1, startTimeoutMs: 60_000, drainTimeoutMs: 10_000 },
    ...{
      image: "registry.example.com/agent:1",
      healthPath: "/ok",
      secrets: {},
      env: { PIERHEAD_CORE_COMMAND: "/core" },
    },
    cluster: {
      namespace: "agents",
      spec,
      sizes: effectiveSizes(null, spec),
      secret_references: secretReferences,
      url: "https://agent.example.com",
      profile: "development",
    },
  };
}
