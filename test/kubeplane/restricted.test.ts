import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { ApiServer, type KubeError } from "../../src/compute/kubernetes/api/api-server.ts";
import type { LiveObject, Manifest } from "../../src/compute/kubernetes/api/manifest.ts";
import { installManifests } from "../../src/compute/kubernetes/install/install.ts";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import type { ClusterRun } from "../../src/contract/listeners/cluster.ts";
import { startListenerProgram } from "../server/listener-program.ts";
import { addDisk } from "./cluster-objects.ts";
import { newRun, openSite, type Site, startWorld } from "./harness.ts";
import { make } from "./plane.ts";

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

const inTime = () => AbortSignal.timeout(30_000);

interface PodView extends LiveObject {
  spec: { volumes?: { name: string }[]; serviceAccountName: string };
}

/** A site whose agents' namespace has the label of the documented install. */
async function openRestrictedSite(): Promise<Site> {
  const site = await openSite(world.plane);
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  const patch = { method: "PATCH", path: `/api/v1/namespaces/${site.namespace}`, body: { metadata: { labels } } };
  await world.plane.admin.call({ ...patch, type: "merge", signal: inTime() });
  return site;
}

test("a cluster that enforces the restricted Pod Security Standard runs every pod of a deployment", async () => {
  await using site = await openRestrictedSite();
  const account = { metadata: { name: "with-a-cloud-role" } };
  await make(world.plane.admin, `/api/v1/namespaces/${site.namespace}/serviceaccounts`, account);
  const spec: ClusterRun["spec"] = {
    queue_max_scale: 1,
    service_account_name: "with-a-cloud-role",
    volumes: [{ name: "cache", emptyDir: {} }],
    init_containers: [{ name: "init", image: "127.0.0.1:1/init:1" }],
    sidecars: [{ name: "proxy", image: "127.0.0.1:1/proxy:1", volumeMounts: [{ name: "cache", mountPath: "/cache" }] }],
  };
  await addDisk(world.plane, `disk-${randomUUID()}`);
  await site.deployed(newRun(site, undefined, { spec }, {}));
  const pods = await site.list<PodView>("Pod");
  const components = pods.map(({ metadata }) => metadata.labels?.["app.kubernetes.io/component"]);
  assert.deepEqual(components.toSorted(), ["postgres", "queue", "redis", "server"]);
  for (const { metadata, spec } of pods) {
    const tokens = (spec.volumes ?? []).filter(({ name }) => name.startsWith("kube-api-access"));
    assert.deepEqual(tokens, [], `${metadata.name} has no token of the cluster`);
  }
});

test("no deployment gets the listener's account, another deployment's account or disk, or an anchor", async () => {
  await using site = await openRestrictedSite();
  const { plane } = world;
  const core = `/api/v1/namespaces/${site.namespace}`;
  const labels = { "app.kubernetes.io/name": "pierhead-listener" };
  await make(plane.admin, `${core}/serviceaccounts`, { metadata: { name: "any-name", labels } });
  const { slug } = await site.deployed(newRun(site));
  const claim = {
    metadata: { name: "looks-ordinary", labels: { "pierhead.dev/retained": "true" } },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  };
  await make(plane.admin, `${core}/persistentvolumeclaims`, claim);
  const attempts: [ClusterRun["spec"], RegExp][] = [
    [{ service_account_name: "any-name" }, /service_account_name names the ServiceAccount 'any-name'/],
    [{ service_account_name: slug }, /service_account_name names the ServiceAccount/],
    [
      { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "looks-ordinary" } }] },
      /names the PersistentVolumeClaim 'looks-ordinary'/,
    ],
    [{ volumes: [{ name: "v", configMap: { name: slug } }] }, /names the ConfigMap/],
    [
      { sidecars: [{ name: "s", image: "s", envFrom: [{ configMapRef: { name: slug } }] }] },
      /sidecars names the ConfigMap/,
    ],
    [{ sidecars: [{ name: "s", image: "s", securityContext: { privileged: true } }] }, /privileged must be false/],
  ];
  for (const [spec, message] of attempts) {
    const cause = await failed(site, newRun(site, undefined, { spec }));
    assert.match(cause, message);
  }
  const references = [{ name: "STOLEN", secret_name: `${slug}-postgres`, secret_key: "uri" }];
  assert.match(await failed(site, newRun(site, undefined, { secret_references: references })), /which is reserved/);
  const deployments = await site.list("Deployment");
  assert.deepEqual(
    deployments.map(({ metadata }) => metadata.name),
    [slug],
    "the refused deployments left nothing",
  );
});

async function failed(site: Site, run: RevisionRun): Promise<string> {
  const deployment_id = randomUUID();
  site.controlPlane.assign({ deployment_id, target: run });
  const report = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
  return report.cause?.message ?? "";
}

test("the installed listener reads nothing in its own namespace and does not start with agents there", async () => {
  const { plane } = world;
  const namespace = await plane.newNamespace();
  const agents = await plane.newNamespace();
  const manifests = installManifests({
    ...{ name: "pierhead-listener", namespace, namespaces: [agents], listenerKey: "key", image: "pierhead:1" },
    ...{ controlPlaneUrl: "http://127.0.0.1:1", version: "0.1.0", replicas: 2 },
    ...{ agentsUrl: "", gateway: "", ingressClass: "", mayRunPrograms: false },
  }) as Manifest[];
  const roles = "/apis/rbac.authorization.k8s.io/v1";
  for (const { kind, ...manifest } of manifests) {
    const at = (manifest.metadata as { namespace?: string }).namespace;
    if (kind === "Role") await make(plane.admin, `${roles}/namespaces/${at}/roles`, manifest);
    else if (kind === "RoleBinding") await make(plane.admin, `${roles}/namespaces/${at}/rolebindings`, manifest);
    else if (kind === "ServiceAccount") await make(plane.admin, `/api/v1/namespaces/${at}/serviceaccounts`, manifest);
    else if (kind === "Secret") await make(plane.admin, `/api/v1/namespaces/${at}/secrets`, manifest);
    else if (kind === "Namespace") {
      const body = { metadata: manifest.metadata };
      const path = `/api/v1/namespaces/${manifest.metadata.name}`;
      await plane.admin.call({ method: "PATCH", path, body, type: "merge", signal: inTime() });
    }
  }
  const account = `/api/v1/namespaces/${namespace}/serviceaccounts/pierhead-listener`;
  const { status } = await make(plane.admin, `${account}/token`, { spec: { audiences: [] } }).then(
    (made) => made as unknown as { status: { token: string } },
  );
  const api = new ApiServer({ ...plane.address("listener"), token: async () => status.token });
  try {
    await api.list("ConfigMap", agents, {}, inTime());
    for (const resource of ["secrets", "secrets/pierhead-listener-key", "configmaps", "pods", "serviceaccounts"]) {
      const path = `/api/v1/namespaces/${namespace}/${resource}`;
      await assert.rejects(api.call({ method: "GET", path, signal: inTime() }), (error: KubeError) => {
        return error.status === 403;
      });
    }
  } finally {
    api.close();
  }
  const enforced = await plane.admin.call<LiveObject>({
    ...{ method: "GET", path: `/api/v1/namespaces/${agents}`, signal: inTime() },
  });
  assert.equal(enforced.metadata.labels?.["pod-security.kubernetes.io/enforce"], "restricted");

  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-shared-"));
  const tokenFile = path.join(directory, "token");
  await writeFile(tokenFile, status.token);
  const start = () =>
    startListenerProgram({
      PIERHEAD_URL: "http://127.0.0.1:1",
      PIERHEAD_LISTENER_KEY: "key",
      PIERHEAD_COMPUTE: "kubernetes",
      PIERHEAD_KUBERNETES_URL: plane.address("listener").url,
      PIERHEAD_KUBERNETES_CA_FILE: plane.caFile,
      PIERHEAD_KUBERNETES_TOKEN_FILE: tokenFile,
      PIERHEAD_KUBERNETES_NAMESPACES: `${agents},${namespace}`,
      PIERHEAD_DATA_DIR: directory,
    });
  await assert.rejects(start(), /Install the listener in a namespace of its own/);
  await rm(directory, { recursive: true, force: true });
});
