import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { ClientRequest } from "node:http";
import { createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import { after, before, suite, test } from "node:test";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { ApiServer, KubeError } from "../../src/compute/kubernetes/api/api-server.ts";
import { pathOf } from "../../src/compute/kubernetes/api/kinds.ts";
import type { DeploymentView } from "../../src/compute/kubernetes/watch/rollout.ts";
import { eventually } from "../support/eventually.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import { addDisk } from "./cluster-objects.ts";
import { newRun, openSite, type Site, sizes, startWorld } from "./harness.ts";
import { make, type Plane } from "./plane.ts";

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

const signal = () => AbortSignal.timeout(30_000);

const serves = ({ controlPlane }: Site, deployment_id: string, revision_id: string) =>
  eventually(
    () => controlPlane.assignments.get(deployment_id)?.serving?.revision_id,
    (id) => id === revision_id,
    { timeoutMs: 90_000, what: "serving" },
  );

const annotate = ({ namespace }: Site, name: string, annotations: Record<string, string | null>) =>
  world.plane.admin.patch("ConfigMap", { namespace, name }, { metadata: { annotations } }, signal());

/** Changes objects as a user with kubectl does. */
const misdirect = ({ namespace }: Site, name: string, word: string) =>
  world.plane.admin.patch("Service", { namespace, name }, { spec: { selector: { wrong: word } } }, signal());

const misdirected = async (site: Site, name: string) =>
  (await site.get<{ spec: { selector: Record<string, string> } }>("Service", name))?.spec.selector["wrong"];

suite("interference of other clients", { concurrency: true }, () => {
  test("an object that server-side apply cannot repair is replaced, and fields that are left out later are still removed", async () => {
    await using site = await openSite(world.plane);
    const labelled = newRun(site, undefined, { spec: { labels: { team: "a" } } });
    const { deployment_id, slug } = await site.deployed(labelled);
    const probe = "/spec/template/spec/containers/0/livenessProbe";
    const edit = [
      { op: "remove", path: `${probe}/httpGet` },
      { op: "add", path: `${probe}/exec`, value: { command: ["true"] } },
    ];
    const key = { namespace: site.namespace, name: slug };
    await world.plane.admin.patch("Deployment", key, edit, signal(), "jsonPatch");
    await eventually(
      async () => JSON.stringify((await site.get<DeploymentView>("Deployment", slug))?.spec),
      (spec) => spec?.includes('"httpGet"') && !spec.includes('"exec"'),
    );
    const plain = newRun(site, "127.0.0.1:1/agent:2");
    site.controlPlane.assign({ deployment_id, target: plain });
    await serves(site, deployment_id, plain.revision_id);
    const { labels } = (await site.get<DeploymentView>("Deployment", slug))?.metadata ?? {};
    assert.equal(labels !== undefined && "team" in labels, false, JSON.stringify(labels));
  });

  test("drift in warn mode is reported and kept until another revision is deployed", async () => {
    await using site = await openSite(world.plane);
    const { deployment_id, slug } = await site.deployed(newRun(site));
    await annotate(site, slug, { "pierhead.dev/drift": "warn" });
    await misdirect(site, slug, "yes");
    const report = await site.reported(deployment_id, ({ cause }) => cause?.reason === "Drifted");
    assert.match(report.cause?.message ?? "", new RegExp(`Service ${slug}: spec\\.selector\\.wrong`));
    assert.equal(report.target_phase, "ready");
    assert.equal(await misdirected(site, slug), "yes");
    const next = newRun(site, "127.0.0.1:1/agent:2");
    site.controlPlane.assign({ deployment_id, target: next });
    await serves(site, deployment_id, next.revision_id);
    assert.equal(await misdirected(site, slug), undefined);
  });

  test("a deployment that is paused in the cluster waits, reports that, and continues afterwards", async () => {
    await using site = await openSite(world.plane);
    const first = newRun(site);
    const { deployment_id, slug } = await site.deployed(first);
    await annotate(site, slug, { "pierhead.dev/paused": "true" });
    const next = newRun(site, "127.0.0.1:1/agent:2");
    site.controlPlane.assign({ deployment_id, target: next });
    const report = await site.reported(deployment_id, ({ cause }) => /paused/.test(cause?.message ?? ""));
    assert.equal(report.target_phase, "starting");
    const { template } = (await site.get<DeploymentView>("Deployment", slug))?.spec ?? {};
    assert.match(JSON.stringify(template), new RegExp(first.revision_id));
    await annotate(site, slug, { "pierhead.dev/paused": null });
    await serves(site, deployment_id, next.revision_id);
  });

  for (const propagationPolicy of ["Background", "Orphan"] as const) {
    test(`an anchor that another client deletes (${propagationPolicy}) is replaced, and its objects stay`, async () => {
      await using site = await openSite(world.plane);
      await addDisk(world.plane, `disk-${site.namespace}`);
      const { deployment_id, slug } = await site.deployed(newRun(site, undefined, {}, {}));
      await annotate(site, slug, { "pierhead.dev/data": "retain" });
      const owned = async () => {
        const pods = (await site.list("Pod")).map(({ metadata }) => metadata.uid).toSorted();
        const secrets = (await site.list("Secret")).map(({ metadata }) => metadata.uid).toSorted();
        return { pods, secrets, service: (await site.get("Service", slug))?.metadata.uid };
      };
      const [anchor, before] = [await site.get("ConfigMap", slug), await owned()];
      const key = { namespace: site.namespace, name: slug };
      await world.plane.admin.remove("ConfigMap", key, { propagationPolicy }, signal());
      const renewed = await eventually(
        () => site.get("ConfigMap", slug),
        (there) => there !== null && there.metadata.uid !== anchor?.metadata.uid,
        { timeoutMs: 60_000, what: "another anchor" },
      );
      assert.equal(renewed?.metadata.annotations?.["pierhead.dev/data"], "retain");
      await eventually(
        async () => JSON.stringify((await site.get("Deployment", slug))?.metadata.ownerReferences),
        (owners) => owners?.includes(`"${renewed?.metadata.uid}"`),
        { what: "owned by the new anchor" },
      );
      assert.deepEqual(await owned(), before);
      const next = newRun(site, "127.0.0.1:1/agent:2", {}, {});
      site.controlPlane.assign({ deployment_id, target: next });
      await serves(site, deployment_id, next.revision_id);
      site.controlPlane.assign({ deployment_id, op: "delete", target: null, serving: null });
      await site.reported(deployment_id, ({ deleted }) => deleted);
      assert.deepEqual(
        (await site.list("Secret")).map(({ metadata }) => metadata.name),
        [`${slug}-postgres`],
      );
    });
  }

  test("a client that changes an object again and again wins, and the report names it", async () => {
    await using site = await openSite(world.plane);
    const { deployment_id, slug } = await site.deployed(newRun(site));
    const isFought = () => /keeps changing/.test(site.controlPlane.reports.get(deployment_id)?.cause?.message ?? "");
    let repairs = 0;
    while (!isFought()) {
      assert.ok(repairs < 10, "repairs must end");
      await misdirect(site, slug, String(repairs));
      const isRepaired = await eventually(
        async () => ((await misdirected(site, slug)) === undefined ? "repaired" : isFought() ? "left" : "changed"),
        (state) => state !== "changed",
      );
      if (isRepaired === "repaired") repairs += 1;
    }
    assert.equal(repairs, 5, "a first deploy is no drift, and each change counts once however many events it causes");
    assert.equal(await misdirected(site, slug), String(repairs));
  });

  test("a webhook that denies or does not answer blocks a revision with a report; once it is gone the revision continues", async () => {
    await using site = await openSite(world.plane);
    const words = "not on a Friday";
    const webhook = createServer(world.plane.tls, (review, response) => {
      review.setEncoding("utf8");
      let text = "";
      review.on("data", (chunk: string) => {
        text += chunk;
      });
      review.on("end", () => {
        const { apiVersion, kind, request: asked } = JSON.parse(text);
        const answer = { uid: asked.uid, allowed: false, status: { code: 403, message: words } };
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ apiVersion, kind, response: answer }));
      });
    });
    // Open after a failure, it would keep the process of the tests alive.
    using closing = new DisposableStack();
    const closeWebhook = () => {
      webhook.closeAllConnections();
      webhook.close();
    };
    closing.defer(closeWebhook);
    webhook.listen(0, "127.0.0.1");
    await once(webhook, "listening");
    const name = `denies-${site.namespace}`;
    const configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    await make(world.plane.admin, configurations, {
      metadata: { name },
      webhooks: [
        {
          ...{
            name: "denies.example.com",
            admissionReviewVersions: ["v1"],
            sideEffects: "None",
            failurePolicy: "Fail",
          },
          clientConfig: {
            url: `https://127.0.0.1:${(webhook.address() as AddressInfo).port}/`,
            caBundle: Buffer.from(world.plane.tls.cert).toString("base64"),
          },
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": site.namespace } },
          rules: [{ apiGroups: ["apps"], apiVersions: ["v1"], operations: ["*"], resources: ["deployments"] }],
        },
      ],
    });
    // A configuration takes effect a moment after it was written.
    const template = {
      metadata: { labels: { a: "b" } },
      spec: { containers: [{ name: "x", image: "127.0.0.1:1/x" }] },
    };
    const probe = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "x", namespace: site.namespace },
      spec: { selector: { matchLabels: { a: "b" } }, template },
    };
    await eventually(
      () => world.plane.admin.apply(probe, signal(), { dryRun: true }).catch((error: Error) => error),
      (answer) => answer instanceof Error && answer.message.includes(words),
    );
    const denied = randomUUID();
    site.controlPlane.assign({ deployment_id: denied, target: newRun(site) });
    const failed = await site.reported(denied, ({ target_phase }) => target_phase === "failed");
    assert.equal(failed.cause?.reason, "Forbidden");
    assert.match(failed.cause?.message ?? "", new RegExp(words));

    closeWebhook();
    const waiting = { deployment_id: randomUUID(), target: newRun(site) };
    site.controlPlane.assign(waiting);
    const held = await site.reported(waiting.deployment_id, ({ cause }) => cause !== null);
    assert.equal(held.target_phase, "starting");
    assert.match(held.cause?.message ?? "", /failed calling webhook/);
    await world.plane.admin.call({ method: "DELETE", path: `${configurations}/${name}`, signal: signal() });
    await serves(site, waiting.deployment_id, waiting.target.revision_id);
  });

  test("a clock that is set an hour forward or back during a rollout ends nothing", async () => {
    let passes = 0;
    let offByMs = 0;
    const clock: Clock = {
      ...systemClock,
      now: () => Date.now() + offByMs,
      setTimeout(run, delayMs) {
        // The deadline of a pass.
        if (delayMs === 120_000) passes += 1;
        return systemClock.setTimeout(run, delayMs);
      },
    };
    await using site = await openSite(world.plane, {}, { clock });
    const { deployment_id } = await site.deployed(newRun(site));
    const tooLarge = { ...sizes, cpuCores: 100, cpuLimitCores: 100 };
    const target = { ...newRun(site, "127.0.0.1:1/agent:2", { sizes: tooLarge }), start_timeout_ms: 300_000 };
    site.controlPlane.assign({ deployment_id, target });
    const { cause_since } = await site.reported(deployment_id, ({ cause }) => cause?.reason === "Unschedulable");
    assert.ok(Date.now() - Date.parse(cause_since ?? "") < 60_000, "since when the pod finds no room");
    for (const setTo of [3_600_000, -3_600_000]) {
      offByMs = setTo;
      const before = passes;
      await eventually(
        () => passes,
        (count) => count > before + 1,
        { timeoutMs: 60_000 },
      );
    }
    await world.node.resize("200");
    await serves(site, deployment_id, target.revision_id);
  });

  test("while the control plane is unreachable the cluster keeps its state, and requested changes are applied afterwards", async () => {
    await using site = await openSite(world.plane);
    const { controlPlane, namespace } = site;
    const { deployment_id, slug } = await site.deployed(newRun(site));
    controlPlane.goAway();
    const next = newRun(site, "127.0.0.1:1/agent:2");
    controlPlane.assign({ deployment_id, target: next });
    const uid = (await site.get("Deployment", slug))?.metadata.uid;
    await world.plane.admin.remove("Deployment", { namespace, name: slug }, {}, signal());
    const repaired = await eventually(
      () => site.get<DeploymentView & { metadata: { uid: string } }>("Deployment", slug),
      (deployment) => deployment?.status?.availableReplicas === 1 && deployment.metadata.uid !== uid,
      { timeoutMs: 60_000 },
    );
    assert.equal(JSON.stringify(repaired).includes(next.revision_id), false);
    controlPlane.isAway = false;
    await serves(site, deployment_id, next.revision_id);
  });

  test("a draining listener changes nothing in its cluster, not even drift, and applies requested changes afterwards", async () => {
    await using site = await openSite(world.plane);
    const { controlPlane, listener } = site;
    const { deployment_id, slug } = await site.deployed(newRun(site));
    controlPlane.orders = { drain: true };
    await eventually(
      () => listener.health().isDrained,
      (isDrained) => isDrained,
      { timeoutMs: 60_000 },
    );
    await misdirect(site, slug, "drained");
    const next = newRun(site, "127.0.0.1:1/agent:2");
    controlPlane.assign({ deployment_id, target: next });
    const asked = () => controlPlane.calls.filter(({ path }) => path === "/dp/v1/sessions").length;
    const before = asked();
    await eventually(asked, (count) => count >= before + 2, { timeoutMs: 60_000 });
    assert.equal(await misdirected(site, slug), "drained");
    assert.equal((await site.get("Deployment", slug))?.metadata.generation, 1);
    controlPlane.orders = {};
    await serves(site, deployment_id, next.revision_id);
    assert.equal(await misdirected(site, slug), undefined);
  });
});

/** A call of the listener whose body never ends: it occupies the only seat that even an empty priority level has. */
async function occupySeat({ address }: Plane, namespace: string): Promise<AsyncDisposable> {
  const { url, ca, token } = address("listener");
  const headers = { authorization: `Bearer ${await token()}`, "content-type": "application/json" };
  const options = { method: "POST", headers, agent: false, ...(ca !== null && { ca }) };
  let isOver = false;
  let call: ClientRequest;
  const sit = () => {
    call = request(`${url}/api/v1/namespaces/${namespace}/configmaps`, options, (answer) => answer.resume());
    call.on("error", () => {});
    // Rejected, or dropped after the server's longest wait.
    call.once("close", () => isOver || setTimeout(sit, 50));
    call.write("{");
  };
  sit();
  return {
    async [Symbol.asyncDispose]() {
      isOver = true;
      call.destroy();
    },
  };
}

const flowControl = "/apis/flowcontrol.apiserver.k8s.io/v1";

test("an API server that rejects all our calls (429) delays a revision, fails nothing, and is used again afterwards", async () => {
  await using site = await openSite(world.plane);
  const { deployment_id } = await site.deployed(newRun(site));
  const limited = { nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0 };
  await make(world.plane.admin, `${flowControl}/prioritylevelconfigurations`, {
    metadata: { name: "nothing" },
    spec: { type: "Limited", limited: { ...limited, limitResponse: { type: "Reject" } } },
  });
  const everything = { verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true };
  await make(world.plane.admin, `${flowControl}/flowschemas`, {
    metadata: { name: "listener" },
    spec: {
      matchingPrecedence: 2,
      priorityLevelConfiguration: { name: "nothing" },
      rules: [{ subjects: [{ kind: "User", user: { name: "listener" } }], resourceRules: [everything] }],
    },
  });
  await using _hog = await occupySeat(world.plane, site.namespace);
  const api = new ApiServer(world.plane.address("listener"));
  await eventually(
    () => api.list("ConfigMap", site.namespace, {}, signal()).catch((error: KubeError) => error),
    (answer) => answer instanceof KubeError && answer.status === 429 && answer.retryAfterMs !== null,
    { timeoutMs: 60_000 },
  );
  api.close();
  const next = newRun(site, "127.0.0.1:1/agent:2");
  site.controlPlane.assign({ deployment_id, target: next });
  const { target_phase } = await site.reported(deployment_id, ({ cause }) => /too many/i.test(cause?.message ?? ""));
  assert.equal(target_phase, "starting");
  await world.plane.admin.call({ method: "DELETE", path: `${flowControl}/flowschemas/listener`, signal: signal() });
  await serves(site, deployment_id, next.revision_id);
});

test("changes that no watch saw and that the server has forgotten (410) are found and repaired", async () => {
  const { plane } = world;
  await using proxy = await startTcpProxy(plane.address("listener").url.replace("https:", "http:"));
  await using site = await openSite(plane, {}, { url: proxy.url.replace("http:", "https:") });
  const { namespace } = site;
  const { deployment_id, slug } = await site.deployed(newRun(site));
  const { uid, resourceVersion } = (await site.get("Deployment", slug))?.metadata ?? {};
  proxy.become("reset");
  await plane.admin.remove("Deployment", { namespace, name: slug }, {}, signal());
  await misdirect(site, slug, "yes");
  await plane.compact();
  await plane.restartApiServer(0);
  const query = { watch: true, resourceVersion, timeoutSeconds: 1 };
  const watched = await plane.admin
    .open({ method: "GET", path: pathOf("Deployment", namespace), query, signal: signal() })
    .then(async (answer) => (await answer.toArray()).join(""))
    .catch((error: KubeError) => `"code":${error.status}`);
  assert.match(watched, /"code":410/);
  proxy.become("none");
  await eventually(
    () => site.get<DeploymentView & { metadata: { uid: string } }>("Deployment", slug),
    (deployment) => deployment?.status?.availableReplicas === 1 && deployment.metadata.uid !== uid,
    { timeoutMs: 90_000 },
  );
  await eventually(
    () => misdirected(site, slug),
    (word) => word === undefined,
  );
  const next = newRun(site, "127.0.0.1:1/agent:2");
  site.controlPlane.assign({ deployment_id, target: next });
  await serves(site, deployment_id, next.revision_id);
});
