import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import type { DeploymentView } from "../../src/compute/kubernetes/watch/rollout.ts";
import { type WatchEvent, watchKind } from "../../src/compute/kubernetes/watch/watch.ts";
import type { MetricSample } from "../../src/contract/logs/metrics.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";
import { addDisk, addGrowingClass, define } from "./cluster-objects.ts";
import { newRun, openSite, sizes, startWorld } from "./harness.ts";
import { LateRefusals } from "./late-refusals.ts";
import { startMetricsServer } from "./metrics-server.ts";
import { make } from "./plane.ts";

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

interface WithContainers {
  spec: { template: { spec: { containers: AgentContainer[] } } };
}

interface AgentContainer {
  command?: string[];
  env?: { name: string; value?: string; valueFrom?: { secretKeyRef: { name: string } } }[];
  readinessProbe?: object;
}

suite("databases, autoscalers and routes", () => {
  test("usage of pods is reported where the cluster measures it; a missing or lost Metrics API is logged once", async () => {
    const lines: string[] = [];
    const logger = pino({ messageKey: "message" }, { write: (line: string) => void lines.push(line) });
    await using site = await openSite(world.plane, {}, { logger });
    const { deployment_id } = await site.deployed(
      newRun(site, undefined, { sizes: { ...sizes, minReplicas: 2, maxReplicas: 2 } }),
    );
    const sampled = (holds: (sample: MetricSample) => boolean) =>
      eventually(
        () => site.controlPlane.samples.findLast((sample) => sample.deployment_id === deployment_id),
        (sample) => sample !== undefined && sample.replicas === 2 && holds(sample),
        { timeoutMs: 60_000 },
      );
    const said = (message: string) => lines.filter((line) => line.includes(`"${message}"`)).length;
    await sampled(({ cpu_cores, memory_mib }) => cpu_cores === null && memory_mib === null);
    {
      await using metrics = await startMetricsServer(world.plane);
      metrics.usage = { cpu: "250000000n", memory: "65536Ki" };
      await sampled(({ cpu_cores, memory_mib }) => cpu_cores === 0.5 && memory_mib === 128);
      metrics.usage = { cpu: "1", memory: "1Gi" };
      await sampled(({ cpu_cores, memory_mib }) => cpu_cores === 2 && memory_mib === 2_048);
      assert.deepEqual([said("usage of replicas is not measured"), said("usage of replicas is measured")], [1, 1]);
      metrics.isDown = true;
      await sampled(({ cpu_cores, memory_mib }) => cpu_cores === null && memory_mib === null);
    }
    const { length } = site.controlPlane.samples;
    await sampled(() => site.controlPlane.samples.length > length + 2);
    assert.deepEqual([said("usage of replicas is not measured"), said("usage of replicas is measured")], [2, 1]);
  });

  test("a deployment without own databases gets them first, and its disk is deleted with it", async () => {
    await using site = await openSite(world.plane);
    const run = newRun(site, undefined, {}, {});
    const { deployment_id } = await (async () => {
      const deploying = site.deployed(run);
      // Without a disk it waits and reports that. Nothing else exists yet.
      const waiting = await eventually(
        () => [...site.controlPlane.reports.values()].find(({ cause }) => cause?.reason === "Storage"),
        (report) => report !== undefined,
        { timeoutMs: 60_000 },
      );
      assert.equal(waiting?.target_phase, "starting");
      assert.deepEqual(
        await site.list("Service").then((all) => all.map(({ metadata }) => metadata.name.split("-").at(-1)).toSorted()),
        ["postgres", "redis"],
      );
      await addDisk(world.plane, `disk-${site.namespace}`);
      return deploying;
    })();
    const claims = await site.list("PersistentVolumeClaim");
    assert.equal(claims.length, 1);
    const [server] = (await site.list<DeploymentView & LiveObject>("Deployment")).filter(
      ({ metadata }) => !metadata.name.endsWith("-redis"),
    );
    assert.match(JSON.stringify(server), /"name":"POSTGRES_URI","valueFrom":\{"secretKeyRef":\{[^}]*-postgres/);

    const smaller = newRun(
      site,
      "127.0.0.1:1/agent:2",
      { sizes: { ...sizes, database: { ...sizes.database, storageGib: 0.5 } } },
      {},
    );
    site.controlPlane.assign({ deployment_id, target: smaller });
    const refused = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.match(refused.cause?.message ?? "", /cannot shrink|refuses the StatefulSet/);

    site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
    await site.reported(deployment_id, ({ deleted }) => deleted);
    for (const kind of ["PersistentVolumeClaim", "StatefulSet", "Secret", "NetworkPolicy", "Service"]) {
      assert.deepEqual(await site.list(kind), [], kind);
    }
  });

  test("an agent on Aegra gets its databases in the cluster, and workers of the same image beside the servers", async () => {
    await using site = await openSite(world.plane);
    await addDisk(world.plane, `disk-${site.namespace}`);
    const parts = {
      spec: { queue_min_scale: 2, queue_max_scale: 2 },
      sizes: { ...sizes, queue: { ...sizes.queue, minReplicas: 2, maxReplicas: 2 } },
    };
    const run = newRun(site, undefined, parts, {});
    const { slug } = await site.deployed({ ...run, artifact: { ...run.artifact, engine: "aegra" } });
    const partOf = async (name: string) => {
      const { spec } = (await site.get<DeploymentView & WithContainers>("Deployment", name)) ?? assert.fail(name);
      const [{ command, env = [], readinessProbe } = {}] = spec.template.spec.containers;
      const variables = Object.fromEntries(env.map((one) => [one.name, one.value ?? one.valueFrom?.secretKeyRef.name]));
      const { N_JOBS_PER_WORKER: jobs, DATABASE_URI: database, REDIS_URI: redis } = variables;
      return { replicas: spec.replicas, command, isProbed: readinessProbe !== undefined, jobs, database, redis };
    };
    const stores = { database: `${slug}-postgres`, redis: `${slug}-redis` };
    const both = { command: undefined, isProbed: true, ...stores };
    assert.deepEqual(await partOf(slug), { replicas: 1, jobs: "0", ...both });
    assert.deepEqual(await partOf(`${slug}-queue`), { replicas: 2, jobs: "10", ...both });
  });

  test("a failed revision leaves the disk that it has grown, and the rollback runs on that disk", async () => {
    await using site = await openSite(world.plane);
    const name = `grows-${site.namespace}`;
    await using _class = await addGrowingClass(world.plane, name);
    await addDisk(world.plane, `disk-${site.namespace}`, name);
    const first = newRun(site, undefined, {}, {});
    const { deployment_id, slug } = await site.deployed(first);
    const database = { ...sizes.database, storageGib: 2 };
    const larger = newRun(site, "127.0.0.1:1/crashes:1", { sizes: { ...sizes, database } }, {});
    site.controlPlane.assign({ deployment_id, target: larger });
    const { cause } = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.equal(cause?.reason, "Exited");
    await eventually(
      () => site.get<DeploymentView>("Deployment", slug),
      (deployment) => JSON.stringify(deployment?.spec.template).includes(first.revision_id),
      { timeoutMs: 60_000, what: "rolled back" },
    );
    assert.match(JSON.stringify((await site.get("StatefulSet", `${slug}-postgres`))?.["spec"]), /"storage":"2Gi"/);
  });

  test("a disk grows even if its StatefulSet disappears just after its change was refused", async () => {
    await using site = await openSite(world.plane, {}, { reach: (to) => new LateRefusals(to) });
    const name = `late-${site.namespace}`;
    await using _class = await addGrowingClass(world.plane, name);
    await addDisk(world.plane, `disk-${site.namespace}`, name);
    const { deployment_id, slug } = await site.deployed(newRun(site, undefined, {}, {}));
    const database = { ...sizes.database, storageGib: 2 };
    const larger = newRun(site, undefined, { sizes: { ...sizes, database } }, {});
    site.controlPlane.assign({ deployment_id, target: larger });
    const { cause, target_phase } = await site.reported(
      deployment_id,
      (report) => report.target_revision_id === larger.revision_id && report.target_phase !== "starting",
    );
    assert.deepEqual([target_phase, cause], ["ready", null]);
    assert.match(JSON.stringify((await site.get("StatefulSet", `${slug}-postgres`))?.["spec"]), /"storage":"2Gi"/);
  });

  test("a disk of whole tebibytes stays unchanged, and cannot shrink", async () => {
    await using site = await openSite(world.plane);
    const withDisk = (storageGib: number) => ({ sizes: { ...sizes, database: { ...sizes.database, storageGib } } });
    const { deployment_id, slug } = site.controlPlane.assign({
      deployment_id: randomUUID(),
      target: newRun(site, undefined, withDisk(1_024), {}),
    });
    const read = () => site.get("StatefulSet", `${slug}-postgres`);
    const made = await eventually(read, (there) => there !== null, { timeoutMs: 60_000 });
    await site.reported(deployment_id, ({ cause }) => cause?.reason === "Storage");
    // Without its disk it waits, and is applied again every 2 s.
    await sleep(5_000);
    assert.equal((await read())?.metadata.uid, made?.metadata.uid);
    site.controlPlane.assign({ deployment_id, target: newRun(site, undefined, withDisk(512), {}) });
    const { cause } = await site.reported(deployment_id, ({ target_phase }) => target_phase === "failed");
    assert.match(cause?.message ?? "", /cannot shrink: the disk has 1024 Gi/);
  });

  test("a database that cannot start fails the revision with the reason, and its image is pulled with the agents' credentials", async () => {
    const postgresImage = "127.0.0.1:1/pull-fails:16";
    await using site = await openSite(world.plane, { postgresImage, imagePullSecrets: ["registry"] });
    await addDisk(world.plane, `disk-${site.namespace}`);
    const assign = (secrets: Record<string, string>) =>
      site.controlPlane.assign({ deployment_id: randomUUID(), target: newRun(site, undefined, {}, secrets) });
    const failed = async (deploymentId: string) =>
      (await site.reported(deploymentId, ({ target_phase }) => target_phase === "failed")).cause;
    const { deployment_id, slug } = assign({});
    // A failed first revision is stopped, which deletes its Redis.
    for (const [kind, name] of [
      ["StatefulSet", `${slug}-postgres`],
      ["Deployment", `${slug}-redis`],
    ] as const) {
      const made = await eventually(
        () => site.get(kind, name),
        (there) => there !== null,
        { timeoutMs: 60_000 },
      );
      assert.match(JSON.stringify(made?.["spec"]), /"imagePullSecrets":\[\{"name":"registry"\}\]/);
    }
    const cause = await failed(deployment_id);
    assert.equal(cause?.reason, "ImagePull");
    assert.match(cause?.message ?? "", /127\.0\.0\.1:1\/pull-fails:16/);
    await make(world.plane.admin, `/api/v1/namespaces/${site.namespace}/resourcequotas`, {
      metadata: { name: "full" },
      spec: { hard: { pods: "0" } },
    });
    const refused = await failed(assign({ REDIS_URI_CUSTOM: "redis://127.0.0.1:1" }).deployment_id);
    assert.equal(refused?.reason, "Forbidden");
    assert.match(refused?.message ?? "", /exceeded quota: full/);
  });

  test("a serving revision keeps its Redis and its service account until a revision without them serves", async () => {
    await using site = await openSite(world.plane);
    const withRedis = { POSTGRES_URI_CUSTOM: "postgresql://127.0.0.1:1/x" };
    const { deployment_id, slug } = await site.deployed(newRun(site, undefined, {}, withRedis));
    const kept = [
      ...[["Deployment", `${slug}-redis`] as const, ["Service", `${slug}-redis`] as const],
      ...[["NetworkPolicy", `${slug}-redis`] as const, ["ServiceAccount", slug] as const],
    ];
    const there = async () => (await Promise.all(kept.map(([kind, name]) => site.get(kind, name)))).map(Boolean);
    const hash = async () => (await site.get("ConfigMap", slug))?.["data"] as { hash: string };
    const { hash: before } = await hash();
    const spec = { service_account_name: "default" };
    site.controlPlane.assign({ deployment_id, target: newRun(site, "127.0.0.1:1/never-ready:1", { spec }) });
    await eventually(hash, (now) => now.hash !== before, { what: "applied" });
    assert.deepEqual(await there(), [true, true, true, true]);
    const next = newRun(site, "127.0.0.1:1/agent:2", { spec });
    site.controlPlane.assign({ deployment_id, target: next });
    await site.reported(deployment_id, ({ serving_revision_id: id }) => id === next.revision_id);
    await eventually(there, (all) => !all.includes(true), { timeoutMs: 30_000, what: "unused objects are deleted" });
  });

  test("operators that are installed later are discovered and used from the next revision on, and data stays where it is", async () => {
    await using site = await openSite(world.plane, {
      gateway: { namespace: "infra", name: "web" },
      ingressClass: "nginx",
      routeAnnotations: {
        "example.com/auth": "https://pierhead.example.com/auth/public?deployment_id={deployment_id}",
      },
    });
    const queue = { ...sizes.queue, maxReplicas: 5 };
    const scaled = { sizes: { ...sizes, minReplicas: 1, maxReplicas: 4, queue }, spec: { queue_max_scale: 5 } };
    const { deployment_id, slug } = await site.deployed(newRun(site, undefined, scaled));
    const annotations = {
      "example.com/auth": `https://pierhead.example.com/auth/public?deployment_id=${deployment_id}`,
    };
    assert.partialDeepStrictEqual((await site.get("Ingress", slug))?.metadata, { annotations });
    await Promise.all([
      define(world.plane, "keda.sh", "v1alpha1", [
        { kind: "ScaledObject", plural: "scaledobjects" },
        { kind: "TriggerAuthentication", plural: "triggerauthentications" },
      ]),
      define(world.plane, "gateway.networking.k8s.io", "v1", [{ kind: "HTTPRoute", plural: "httproutes" }]),
      define(world.plane, "metrics.k8s.io", "v1beta1", [{ kind: "Fake", plural: "fakes" }]),
    ]);
    await site.rediscovered(({ hasKeda, hasGatewayApi, hasMetrics }) => hasKeda && hasGatewayApi && hasMetrics);
    const second = newRun(site, "127.0.0.1:1/agent:2", scaled);
    site.controlPlane.assign({ deployment_id, target: second });
    const serving = (revision: string) =>
      eventually(
        () => site.controlPlane.assignments.get(deployment_id)?.serving?.revision_id,
        (id) => id === revision,
        { timeoutMs: 60_000 },
      );
    await serving(second.revision_id);
    const route = await site.get("HTTPRoute", slug);
    assert.ok(route, "the route belongs to the Gateway API now");
    assert.partialDeepStrictEqual(route.metadata, { annotations });
    const { generation } = site.controlPlane.assignments.get(deployment_id) ?? {};
    await site.reported(deployment_id, (report) => report.generation === generation && report.target_phase === "ready");
    await world.plane.admin.remove("HTTPRoute", route.metadata, {}, AbortSignal.timeout(10_000));
    await eventually(
      () => site.get("HTTPRoute", slug),
      (again) => again !== null && again.metadata.uid !== route.metadata.uid,
      { timeoutMs: 30_000, what: "repaired, like objects that existed from the start" },
    );
    assert.equal(await site.get("Ingress", slug), null, "and the Ingress is gone");
    assert.ok(await site.get("ScaledObject", `${slug}-queue`));
    assert.ok(await site.get("HorizontalPodAutoscaler", slug));

    // KEDA's admission refuses a workload that another autoscaler scales. It is not installed here, so the order is checked.
    const versions = new Map<string, number>();
    const ending = new AbortController();
    for (const kind of ["HorizontalPodAutoscaler", "ScaledObject"]) {
      const what = { kind, namespace: site.namespace, labelSelector: "app.kubernetes.io/managed-by=pierhead" };
      const onEvent = ({ type, object: { metadata } }: WatchEvent) => {
        if (metadata.name === slug) versions.set(`${type} ${kind}`, Number(metadata.resourceVersion));
      };
      void watchKind(world.plane.admin, what, { onEvent, logger: createLogger("silent"), signal: ending.signal });
    }
    await eventually(
      () => versions.has("ADDED HorizontalPodAutoscaler"),
      (isKnown) => isKnown,
    );
    // It has no workers, so the pods that answer requests execute the runs.
    const queued = newRun(site, "127.0.0.1:1/agent:3", { ...scaled, spec: {} });
    site.controlPlane.assign({
      deployment_id,
      target: { ...queued, artifact: { ...queued.artifact, engine: "postgres" } },
    });
    await serving(queued.revision_id);
    await eventually(
      () => versions.has("ADDED ScaledObject") && versions.has("DELETED HorizontalPodAutoscaler"),
      (isSwitched) => isSwitched,
    );
    ending.abort();
    const [gone = 0, made = 0] = ["DELETED HorizontalPodAutoscaler", "ADDED ScaledObject"].map((name) =>
      versions.get(name),
    );
    assert.ok(gone < made, "the autoscaler was deleted before KEDA got its object");

    // The autoscaler has chosen four: an update keeps them.
    const path = `/apis/apps/v1/namespaces/${site.namespace}/deployments/${slug}/scale`;
    await world.plane.admin.call({
      method: "PATCH",
      path,
      body: { spec: { replicas: 4 } },
      type: "merge",
      signal: AbortSignal.timeout(10_000),
    });
    const begun = newRun(site, undefined, { sizes: { ...sizes, minReplicas: 2, maxReplicas: 4 } });
    const { slug: newSlug } = await site.deployed(begun);
    const managers = (await site.get("Deployment", newSlug))?.metadata.managedFields ?? [];
    const owner = managers.filter(
      ({ fieldsV1 }) =>
        JSON.stringify(fieldsV1).includes('"f:replicas":{}},') ||
        JSON.stringify(fieldsV1) === '{"f:spec":{"f:replicas":{}}}',
    );
    assert.deepEqual(
      owner.map(({ manager }) => manager),
      ["pierhead-scale"],
      "not owned by us any more",
    );
    assert.equal((await site.get<DeploymentView>("Deployment", newSlug))?.spec.replicas, 2);
    const third = newRun(site, "127.0.0.1:1/agent:3", scaled);
    let fewest = 4;
    site.controlPlane.assign({ deployment_id, target: third });
    const watching = setInterval(() => {
      void site.get<DeploymentView>("Deployment", slug).then((deployment) => {
        fewest = Math.min(fewest, deployment?.spec.replicas ?? 0);
      });
    }, 200);
    await serving(third.revision_id);
    clearInterval(watching);
    assert.equal(fewest, 4, "never fewer than the autoscaler has chosen");

    // The server refuses to apply a probe of another kind beside ours, so the object is replaced, except for its replicas.
    const probe = "/spec/template/spec/containers/0/livenessProbe";
    const edit = [
      { op: "remove", path: `${probe}/httpGet` },
      { op: "add", path: `${probe}/exec`, value: { command: ["true"] } },
    ];
    const key = { namespace: site.namespace, name: slug };
    await world.plane.admin.patch("Deployment", key, edit, AbortSignal.timeout(10_000), "jsonPatch");
    const repaired = await eventually(
      () => site.get<LiveObject & DeploymentView>("Deployment", slug),
      (deployment) =>
        !JSON.stringify(deployment?.spec).includes('"exec"') &&
        !deployment?.metadata.managedFields?.some(
          ({ manager, operation }) => manager === "pierhead-listener" && operation === "Update",
        ),
    );
    assert.equal(repaired?.spec.replicas, 4, "also after a replace of the whole object");
  });

  test("output of pods arrives at the control plane, each line once", async () => {
    await using site = await openSite(world.plane);
    const { deployment_id } = await site.deployed(newRun(site));
    const lines = () => [...site.controlPlane.lines.values()].filter((line) => line.deployment_id === deployment_id);
    const [first] = await eventually(lines, (all) => all.length === 1);
    const pod = first?.replica_id as string;
    assert.equal(first?.message, `hello from ${pod}`);
    world.node.logs.set(pod, [`hello from ${pod}`, "second", '{"level":"error","message":"third"}']);
    await eventually(lines, (all) => all.length === 3);
    assert.deepEqual(
      lines().map(({ level }) => level),
      ["INFO", "INFO", "ERROR"],
    );
  });
});
