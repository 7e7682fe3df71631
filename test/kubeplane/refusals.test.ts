import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiServer, type KubeError } from "../../src/compute/kubernetes/api/api-server.ts";
import { Elector } from "../../src/compute/kubernetes/api/lease.ts";
import type { Manifest } from "../../src/compute/kubernetes/api/manifest.ts";
import { openKubernetesCluster } from "../../src/compute/kubernetes/kubernetes-cluster.ts";
import type { DeploymentView } from "../../src/compute/kubernetes/watch/rollout.ts";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import type { ClusterRun } from "../../src/contract/listeners/cluster.ts";
import { workloadOf } from "../../src/listener/clusters/cluster-report.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { ControlPlane } from "../listener/control-plane.ts";
import { eventually } from "../support/eventually.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import { elsewhere, grant, newRun, openSite, policy, type Site, sizes, startWorld } from "./harness.ts";
import { make } from "./plane.ts";

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

const late = (run: RevisionRun): RevisionRun => ({ ...run, start_timeout_ms: 12_000 });

async function failed(site: Site, run: RevisionRun) {
  const deployment_id = randomUUID();
  const { slug } = site.controlPlane.assign({ deployment_id, target: run });
  const report = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
  return { deployment_id, slug, cause: report.cause };
}

suite("refusals and limits of a cluster", { concurrency: true }, () => {
  test("pods that never get ready, or that no node has room for, fail at the deadline with the reason", async () => {
    await using site = await openSite(world.plane);
    const huge = { ...sizes, cpuCores: 900, cpuLimitCores: 900 };
    const [never, unplaced] = await Promise.all([
      failed(site, late(newRun(site, "127.0.0.1:1/never-ready:1"))),
      failed(site, late(newRun(site, undefined, { sizes: huge }))),
    ]);
    assert.equal(never.cause?.reason, "NotHealthy");
    assert.equal(unplaced.cause?.reason, "Unschedulable");
    assert.match(unplaced.cause?.message ?? "", /Insufficient cpu/);
  });

  test("a missing service account, a full quota and a cluster policy are reported in the cluster's words", async () => {
    await using site = await openSite(world.plane);
    const missing = await failed(site, newRun(site, undefined, { spec: { service_account_name: "nobody" } }));
    assert.equal(missing.cause?.reason, "Forbidden");
    assert.match(missing.cause?.message ?? "", /serviceaccount "nobody" not found/);
    await make(world.plane.admin, `/api/v1/namespaces/${site.namespace}/resourcequotas`, {
      metadata: { name: "none" },
      spec: { hard: { pods: "0" } },
    });
    const full = await failed(site, newRun(site));
    assert.match(full.cause?.message ?? "", /exceeded quota: none/);
    const policies = "/apis/admissionregistration.k8s.io/v1";
    const name = `no-denied-${site.namespace}`;
    await make(world.plane.admin, `${policies}/validatingadmissionpolicies`, {
      metadata: { name },
      spec: {
        matchConstraints: {
          resourceRules: [
            { apiGroups: ["apps"], apiVersions: ["v1"], operations: ["CREATE", "UPDATE"], resources: ["deployments"] },
          ],
        },
        validations: [
          {
            expression: "!object.spec.template.spec.containers[0].image.contains('denied')",
            message: "this image is denied here",
          },
        ],
      },
    });
    const matchResources = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": site.namespace } } };
    await make(world.plane.admin, `${policies}/validatingadmissionpolicybindings`, {
      metadata: { name },
      spec: { policyName: name, validationActions: ["Deny"], matchResources },
    });
    // Policies are compiled a moment after they are written.
    await eventually(
      async () => failedNow(site),
      (message) => message.includes("this image is denied here"),
      { timeoutMs: 60_000 },
    );
  });

  test("a value of another type, a variable named twice and a label that no cluster takes fail a revision at once", async () => {
    await using site = await openSite(world.plane);
    const sidecar = (parts: object) => ({ sidecars: [{ name: "s", image: "127.0.0.1:1/s:1", ...parts }] });
    const named = { name: "A", value: "x" };
    const refused: [ClusterRun["spec"], RegExp][] = [
      [{ volumes: [{ name: "v", emptyDir: { sizeLimit: [1] } }] }, /refuses the Deployment of this revision/],
      [sidecar({ env: [named, named] }), /duplicate entries for key \[name="A"\]/],
      [sidecar({ resources: { limits: { cpu: "lots" } } }), /quantities must match/],
      [{ labels: { team: "support and sales" } }, /resource_spec\.labels\.team is no label of Kubernetes/],
    ];
    for (const [spec, message] of refused) {
      const { cause } = await failed(site, newRun(site, undefined, { spec }));
      assert.equal(cause?.reason, "StartError");
      assert.match(cause?.message ?? "", message);
    }
  });

  test("the listener's token reads no Secret, creates no pod, and reaches no other namespace", async () => {
    await using site = await openSite(world.plane);
    const other = await world.plane.newNamespace();
    const api = new ApiServer(world.plane.address("listener"));
    const signal = AbortSignal.timeout(30_000);
    const secrets = `/api/v1/namespaces/${site.namespace}/secrets`;
    const secret: Manifest = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "theirs", namespace: site.namespace },
    };
    await make(world.plane.admin, secrets, { ...secret, stringData: { a: "b" } });
    const calls: (() => Promise<unknown>)[] = [
      () => api.call({ method: "GET", path: secrets, signal }),
      () => api.call({ method: "GET", path: `${secrets}/theirs`, signal }),
      () => api.apply(secret, signal),
      () => api.patch("Secret", { namespace: site.namespace, name: "theirs" }, {}, signal),
      () => api.call({ method: "POST", path: `/api/v1/namespaces/${site.namespace}/pods`, body: {}, signal }),
      () => api.call({ method: "GET", path: `/api/v1/namespaces/${other}/configmaps`, signal }),
      () => api.call({ method: "GET", path: "/api/v1/nodes", signal }),
      () => api.call({ method: "GET", path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", signal }),
    ];
    for (const [index, call] of calls.entries()) {
      await assert.rejects(call(), (error: KubeError) => error.status === 403, `call ${index}`);
    }
    api.close();
  });

  test("an older session or generation that arrives late changes nothing", async () => {
    await using site = await openSite(world.plane);
    const run = newRun(site);
    const { deployment_id, slug } = await site.deployed(run);
    const key = { namespace: site.namespace, name: slug };
    // As if a listener with a newer session had applied: this one must not overwrite it.
    await world.plane.admin.patch("ConfigMap", key, { data: { epoch: "999" } }, AbortSignal.timeout(10_000));
    site.controlPlane.assign({ deployment_id, target: newRun(site, "127.0.0.1:1/agent:stale") });
    await site.reported(deployment_id, ({ cause }) => /was applied before/.test(cause?.message ?? ""));
    const deployment = await site.get<DeploymentView>("Deployment", slug);
    assert.equal(JSON.stringify(deployment).includes("agent:stale"), false);
  });

  test("without metrics the minimum number of replicas runs, with a disruption budget", async () => {
    await using site = await openSite(world.plane);
    const run = newRun(site, undefined, { sizes: { ...sizes, minReplicas: 2, maxReplicas: 6 } });
    const { deployment_id, slug } = await site.deployed(run);
    const key = { namespace: site.namespace, name: slug };
    assert.equal((await site.get<DeploymentView>("Deployment", slug))?.spec.replicas, 2);
    assert.ok(await site.get("PodDisruptionBudget", slug));
    const next = newRun(site, "127.0.0.1:1/agent:2", { sizes: { ...sizes, minReplicas: 3, maxReplicas: 3 } });
    site.controlPlane.assign({ deployment_id, target: next });
    await eventually(
      () => world.plane.admin.get<DeploymentView>("Deployment", key.namespace, key.name, AbortSignal.timeout(10_000)),
      (deployment) => deployment?.spec.replicas === 3 && deployment.status?.updatedReplicas === 3,
    );
  });
});

async function failedNow(site: Site): Promise<string> {
  const deployment_id = randomUUID();
  const run = newRun(site, "127.0.0.1:1/denied:1");
  site.controlPlane.assign({ deployment_id, target: run });
  const report = await site.reported(
    deployment_id,
    ({ cause, target_phase }) => cause !== null || target_phase === "failed",
  );
  site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
  return report.cause?.message ?? "";
}

test("objects that an apply wrote before the cluster refused the rest do not count as drift", async () => {
  const { plane } = world;
  const namespace = await plane.newNamespace();
  await grant(plane, namespace);
  const api = new ApiServer(plane.address("listener"));
  const cluster = await openKubernetesCluster({ api, namespaces: [namespace], policy, logger: createLogger("silent") });
  const drifted: string[] = [];
  cluster.onChange((deploymentId, isDrift) => isDrift && drifted.push(deploymentId));
  const site = { controlPlane: new ControlPlane() };
  const assignment = site.controlPlane.assign({ deployment_id: randomUUID() });
  const apply = (run: RevisionRun, secrets: Record<string, string>) =>
    cluster.apply(workloadOf(assignment, run, secrets, { epoch: 1, listener_id: "one" }), AbortSignal.timeout(30_000));
  try {
    await apply(newRun(site), elsewhere);
    const quota = { metadata: { name: "two" }, spec: { hard: { "count/deployments.apps": "2" } } };
    const quotas = `/api/v1/namespaces/${namespace}/resourcequotas`;
    await make(plane.admin, quotas, quota);
    const status = () =>
      plane.admin.call({ method: "GET", path: `${quotas}/two`, signal: AbortSignal.timeout(10_000) });
    await eventually(status, (there) =>
      JSON.stringify(there["status"]).includes('"used":{"count/deployments.apps":"1"}'),
    );
    // The quota has room for Redis but not for the workers; the server was written in between.
    const queued = newRun(site, "127.0.0.1:1/agent:2", { spec: { queue_max_scale: 1 } });
    await assert.rejects(apply(queued, { POSTGRES_URI_CUSTOM: "x" }), /exceeded quota/);
    const server = await plane.admin.get("Deployment", namespace, assignment.slug, AbortSignal.timeout(10_000));
    assert.match(JSON.stringify(server), /agent:2/);
    await sleep(1_500);
    assert.deepEqual(drifted, []);
  } finally {
    await cluster.close();
  }
});

test("a listener continues after its API server was killed and restarted", async () => {
  await using site = await openSite(world.plane);
  const { deployment_id } = await site.deployed(newRun(site));
  const next = newRun(site, "127.0.0.1:1/agent:2");
  site.controlPlane.assign({ deployment_id, target: next });
  await world.plane.restartApiServer(500);
  await eventually(
    () => site.controlPlane.assignments.get(deployment_id)?.serving?.revision_id,
    (serving) => serving === next.revision_id,
    { timeoutMs: 90_000 },
  );
});

test("one of two replicas leads; a frozen leader is replaced, stops acting, and becomes a standby", async () => {
  const { plane } = world;
  const namespace = await plane.newNamespace();
  await using proxy = await startTcpProxy(plane.address("admin").url.replace("https:", "http:"));
  const times = { durationMs: 3_000, renewMs: 500, retryMs: 200 };
  const logger = createLogger("silent");
  const stopping = new AbortController();
  const leading = new Set<string>();
  let most = 0;
  const run = (holder: string, url: string) => {
    const api = new ApiServer({ ...plane.address("admin"), url });
    const lead = async (signal: AbortSignal) => {
      leading.add(holder);
      most = Math.max(most, leading.size);
      await sleep(600_000, undefined, { signal }).catch(() => {});
      leading.delete(holder);
    };
    return new Elector(api, { namespace, name: "listener", holder }, { logger, times })
      .run(lead, stopping.signal)
      .finally(() => api.close());
  };
  const first = run("a", proxy.url.replace("http:", "https:"));
  await eventually(
    () => [...leading],
    (who) => who.join() === "a",
  );
  const second = run("b", plane.address("admin").url);
  proxy.become("blackhole");
  await eventually(
    () => [...leading],
    (who) => who.join() === "b",
  );
  proxy.become("none");
  await sleep(2 * times.durationMs);
  assert.deepEqual([...leading], ["b"], "the replica that was cut off does not take over again");
  assert.equal(most, 1, "never two leaders at once");
  stopping.abort();
  await Promise.all([first, second]);
});
