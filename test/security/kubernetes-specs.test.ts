import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { startTestServer, type TestServer } from "../support/server.ts";

/**
 * What a deployer must not reach through the pods of a deployment: the listener, other deployments, the nodes. Every request is
 * refused on creation, on a change and for a new revision, and the message names the field.
 */
const sidecar = (parts: object) => ({ sidecars: [{ name: "s", image: "registry.example/s:1", ...parts }] });
const secured = (securityContext: object) => sidecar({ securityContext });
const volume = (source: object) => ({ volumes: [{ name: "v", ...source }] });
const otherSecret = "other-1234abcd-env-0123456789";

const refused: [mustNot: string, spec: object, field: RegExp][] = [
  ["run as the listener's account", { service_account_name: "pierhead-listener" }, /'.*service_account_name'/],
  ["mount the listener's key", volume({ secret: { secretName: "pierhead-listener-key" } }), /volumes\[0\]\.secret/],
  [
    "read the listener's key as a variable",
    sidecar({ env: [{ name: "K", valueFrom: { secretKeyRef: { name: "pierhead-listener-key", key: "key" } } }] }),
    /sidecars\[0\]\.env\[0\]\.valueFrom\.secretKeyRef\.name/,
  ],
  [
    "read the listener's key as variables",
    { init_containers: [{ name: "i", image: "i", envFrom: [{ secretRef: { name: "pierhead-listener-key" } }] }] },
    /init_containers\[0\]\.envFrom\[0\]\.secretRef\.name/,
  ],
  ["pull with the listener's key", { image_pull_secrets: [{ name: "pierhead-listener-key" }] }, /image_pull_secrets/],
  ["mount the listener's ConfigMap", volume({ configMap: { name: "pierhead-listener" } }), /volumes\[0\]\.configMap/],
  [
    "read the listener's ConfigMap as a variable",
    sidecar({ env: [{ name: "K", valueFrom: { configMapKeyRef: { name: "pierhead", key: "key" } } }] }),
    /configMapKeyRef\.name/,
  ],
  ["mount a Helm release, which has the key", volume({ secret: { secretName: "sh.helm.release.v1.x.v1" } }), /secret/],
  ["mount another deployment's secrets", volume({ secret: { secretName: otherSecret } }), /volumes\[0\]\.secret/],
  [
    "mount another database's password",
    volume({ projected: { sources: [{ secret: { name: "other-1234abcd-postgres" } }] } }),
    /volumes\[0\]\.projected\.sources\[0\]\.secret\.name/,
  ],
  [
    "mount another database's superuser",
    volume({ secret: { secretName: "other-1234abcd-postgres-superuser" } }),
    /volumes\[0\]\.secret\.secretName/,
  ],
  [
    "mount another database's disk",
    volume({ persistentVolumeClaim: { claimName: "data-other-1234abcd-postgres-0" } }),
    /persistentVolumeClaim\.claimName/,
  ],
  ["mount a token that the cluster made", volume({ secret: { secretName: "default-token-x7k2p" } }), /secretName/],
  [
    "mount a token of the cluster's API",
    volume({ projected: { sources: [{ serviceAccountToken: { path: "token" } }] } }),
    /volumes\[0\]\.projected\.sources\[0\]\.serviceAccountToken/,
  ],
  [
    "mount trust bundles or certificates of the cluster",
    volume({ projected: { sources: [{ podCertificate: { keyType: "RSA3072" } }] } }),
    /sources\[0\]\.podCertificate/,
  ],
  ["mount a directory of the node", volume({ hostPath: { path: "/" } }), /volumes\[0\]' needs a name and exactly one/],
  ["mount a network file system", volume({ nfs: { server: "10.0.0.1", path: "/" } }), /volumes\[0\]\.nfs/],
  ["use a storage driver", volume({ csi: { driver: "x" } }), /volumes\[0\]\.csi/],
  [
    "give Secrets to a storage driver",
    volume({ csi: { driver: "x", nodePublishSecretRef: { name: "s" } } }),
    /volumes\[0\]\.csi\.nodePublishSecretRef/,
  ],
  ["disable the filter of system calls", secured({ seccompProfile: { type: "Unconfined" } }), /seccompProfile\.type/],
  ["use a profile of the node", secured({ seccompProfile: { type: "Localhost", localhostProfile: "x" } }), /seccomp/],
  ["see the whole /proc", secured({ procMount: "Unmasked" }), /sidecars\[0\]\.securityContext\.procMount/],
  ["run as a process of the node", secured({ windowsOptions: { hostProcess: true } }), /windowsOptions/],
  ["choose an SELinux label", secured({ seLinuxOptions: { type: "spc_t" } }), /seLinuxOptions/],
  ["choose an AppArmor profile", secured({ appArmorProfile: { type: "Unconfined" } }), /appArmorProfile/],
  ["run privileged", secured({ privileged: true }), /securityContext\.privileged/],
  ["run privileged by another spelling", secured({ privileged: "true" }), /securityContext\.privileged/],
  ["gain privileges", secured({ allowPrivilegeEscalation: true }), /allowPrivilegeEscalation/],
  ["add capabilities", secured({ capabilities: { add: ["SYS_ADMIN"] } }), /capabilities\.add\[0\]/],
  ["run as root", secured({ runAsUser: 0 }), /securityContext\.runAsUser/],
  ["allow root", secured({ runAsNonRoot: false }), /securityContext\.runAsNonRoot/],
  ["set an unknown field", secured({ somethingNew: {} }), /securityContext\.somethingNew/],
  ["set a field of every object", secured({ constructor: {} }), /securityContext\.constructor/],
  [
    "mount into the node",
    {
      ...volume({ emptyDir: {} }),
      volume_mounts: [{ name: "v", mountPath: "/x", mountPropagation: "Bidirectional" }],
    },
    /volume_mounts\[0\]\.mountPropagation/,
  ],
  ["look like another deployment", { labels: { "pierhead.dev/deployment-id": "x" } }, /labels\.pierhead\.dev/],
  ["look like another's database", { labels: { "cnpg.io/cluster": "other-1234abcd-postgres" } }, /labels\.cnpg\.io/],
  ["look like a pod of a controller", { labels: { "pod-template-hash": "x" } }, /labels\.pod-template-hash/],
  [
    "take a role of the cloud",
    { annotations: { "iam.amazonaws.com/role": "admin" } },
    /annotations\.iam\.amazonaws\.com/,
  ],
  [
    "mount a directory of the node through a service mesh",
    { annotations: { "sidecar.istio.io/userVolume": '{"host":{"hostPath":{"path":"/"}}}' } },
    /annotations\.sidecar\.istio\.io/,
  ],
  ["make a route of Emissary", { annotations: { "getambassador.io/config": "x" } }, /annotations\.getambassador/],
  ["write a label that no cluster takes", { labels: { team: "support and sales" } }, /labels\.team' is no label of/],
  ["write a label without a name", { labels: { "example.com/": "x" } }, /labels\.example\.com\/' is no label of/],
  ["write a label of two domains", { labels: { "a.example/b/c": "x" } }, /labels\.a\.example\/b\/c' is no label of/],
  ["write an annotation that no cluster takes", { annotations: { "a b": "x" } }, /annotations\.a b' is no annotation/],
  ["attach a network", { annotations: { "k8s.v1.cni.cncf.io/networks": "x" } }, /annotations\.k8s\.v1\.cni/],
];

/** Specs of existing clients, which must keep working. */
const accepted: [string, object][] = [
  ["an account of the operator's", { service_account_name: "agent-with-a-cloud-role" }],
  ["a registry's Secret", { image_pull_secrets: [{ name: "registry" }] }],
  ["a dated name", { ...volume({ configMap: { name: "settings-20240101", items: [{ key: "a", path: "a" }] } }) }],
  [
    "volumes of every kind",
    {
      volumes: [
        { name: "a", secret: { secretName: "mine", defaultMode: 256 } },
        { name: "b", emptyDir: { sizeLimit: "1Gi", medium: null } },
        { name: "c", persistentVolumeClaim: { claimName: "cache", readOnly: true } },
        { name: "d", projected: { sources: [{ secret: { name: "mine" } }, { configMap: { name: "settings" } }] } },
        { name: "e", downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
      ],
      volume_mounts: [{ name: "c", mountPath: "/cache", subPath: "a", readOnly: true }],
    },
  ],
  [
    "a restricted sidecar",
    secured({
      ...{ runAsUser: 65_532, runAsGroup: 0, runAsNonRoot: true, privileged: false, readOnlyRootFilesystem: true },
      ...{ allowPrivilegeEscalation: false, seccompProfile: { type: "RuntimeDefault" } },
      capabilities: { drop: ["ALL"], add: ["NET_BIND_SERVICE"] },
    }),
  ],
  ["fields that the contract ignores", sidecar({ ports: [{ containerPort: 80 }], securityContext: null })],
  [
    "labels and annotations",
    {
      labels: { team: "a", "example.com/Team_1": "", stage: "Pre-1.0_rc" },
      annotations: { "prometheus.io/scrape": "true", "Example.com/note": "any text, also\nof two lines" },
    },
  ],
  ["a service mesh", { annotations: { "sidecar.istio.io/inject": "false", "linkerd.io/inject": "enabled" } }],
];

let server: TestServer;
let listener_id: string;
let deployment_id: string;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "none" });
  ({ id: listener_id } = await server.client.createListener({
    body: { compute_type: "k8s", compute_id: "cluster", compute_config: { k8s_namespaces: ["agents"] } },
  }));
  const made = await create({});
  assert.equal(made.status, 201, JSON.stringify(made.body));
  deployment_id = made.body["id"] as string;
});
after(() => server[Symbol.asyncDispose]());

async function call(method: string, path: string, body: object) {
  const headers = { "x-api-key": server.apiKey, "content-type": "application/json" };
  const signal = AbortSignal.timeout(30_000);
  const response = await fetch(`${server.url}${path}`, { method, headers, body: JSON.stringify(body), signal });
  const code = response.headers.get("x-pierhead-error");
  return { status: response.status, code, body: (await response.json()) as Record<string, unknown> };
}

let made = 0;
const create = (resource_spec: object, more: object = {}) => {
  made += 1;
  return call("POST", "/v2/deployments", {
    name: `agent-${made}`,
    source: "external_docker",
    source_config: { listener_id, resource_spec },
    source_revision_config: { image_uri: "registry.example/agent:1" },
    ...more,
  });
};

suite("a deployer must not", () => {
  for (const [mustNot, resource_spec, field] of refused) {
    test(mustNot, async () => {
      const answers = [
        await create(resource_spec),
        await call("PATCH", `/v2/deployments/${deployment_id}`, { source_config: { resource_spec } }),
        await call("POST", `/v2/deployments/${deployment_id}/revisions`, { source_config: { resource_spec } }),
      ];
      for (const { status, code, body } of answers) {
        assert.deepEqual([status, code], [400, "invalidField"], JSON.stringify(body));
        assert.match(body["detail"] as string, field);
      }
    });
  }

  for (const secret_name of ["pierhead-listener-key", "other-1234abcd-postgres", otherSecret]) {
    test(`refer to the Secret ${secret_name}`, async () => {
      const secret_references = [{ name: "STOLEN", secret_name, secret_key: "uri" }];
      const answers = [
        await create({}, { secret_references }),
        await call("PATCH", `/v2/deployments/${deployment_id}`, { secret_references }),
        await call("POST", `/v2/deployments/${deployment_id}/revisions`, { secret_references }),
      ];
      for (const { status, code, body } of answers) {
        assert.deepEqual([status, code], [400, "invalidSecret"], JSON.stringify(body));
        assert.match(body["detail"] as string, /'STOLEN' names the Secret .* which is reserved/);
      }
    });
  }
});

suite("a deployer can still use", () => {
  for (const [what, resource_spec] of accepted) {
    test(what, async () => {
      const { status, body } = await create(resource_spec);
      assert.equal(status, 201, JSON.stringify(body));
    });
  }
});

test("only the operator's listener lifts a refusal, and only for its own deployments", async () => {
  const compute_config = { k8s_namespaces: ["agents"] };
  const body = { compute_type: "k8s" as const, compute_id: "open", compute_config };
  const { id, listener_key } = await server.client.createListener({ body });
  const spec = secured({ privileged: true });
  const config = { source_config: { listener_id: id, resource_spec: spec } };
  assert.equal((await create({}, config)).status, 400);
  const capabilities = ["privileged-containers"];
  const session = { instance_id: "i", version: "1", protocols: [1], compute_type: "k8s", capabilities };
  const headers = { "x-api-key": listener_key, "content-type": "application/json" };
  const opened = await fetch(`${server.url}/dp/v1/sessions`, {
    ...{ method: "POST", headers, body: JSON.stringify(session), signal: AbortSignal.timeout(30_000) },
  });
  assert.equal(opened.status, 201);
  const allowed = await create({}, config);
  assert.equal(allowed.status, 201, JSON.stringify(allowed.body));
  const change = { source_config: { resource_spec: { ...spec, labels: { team: "a" } } } };
  assert.equal((await call("PATCH", `/v2/deployments/${allowed.body["id"]}`, change)).status, 200);
  assert.equal((await call("PATCH", `/v2/deployments/${deployment_id}`, change)).status, 400);
  const rootless = { source_config: { resource_spec: secured({ procMount: "Unmasked" }) } };
  assert.equal((await call("PATCH", `/v2/deployments/${allowed.body["id"]}`, rootless)).status, 400);
});
