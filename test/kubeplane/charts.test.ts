import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { installManifests } from "../../src/compute/kubernetes/install/install.ts";
import { findRegistryProgram } from "../../src/registry/registry-process.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startWorld } from "./harness.ts";

const run = promisify(execFile);
const helm = process.env["PIERHEAD_TEST_HELM"] ?? "";
const charts = ["pierhead", "pierhead-listener"];
const valuesOf = (chart: string) =>
  readdirSync(`deploy/helm/${chart}/ci`).map((name) => `deploy/helm/${chart}/ci/${name}`);

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  assert.notEqual(helm, "", "helm could not be had: see test/kubeplane/helm.ts");
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

const template = async (chart: string, namespace: string, flags: string[]) => {
  const args = ["template", "pierhead-release", `deploy/helm/${chart}`, "-n", namespace, ...flags];
  return (await run(helm, args, { maxBuffer: 16 * 1024 * 1024 })).stdout;
};

interface Doc {
  kind: string;
  namespace?: string;
  name: string;
  text: string;
}

const plurals: Record<string, string> = {
  Namespace: "/api/v1 namespaces",
  ServiceAccount: "/api/v1 serviceaccounts",
  Secret: "/api/v1 secrets",
  ConfigMap: "/api/v1 configmaps",
  PersistentVolumeClaim: "/api/v1 persistentvolumeclaims",
  Service: "/api/v1 services",
  Deployment: "/apis/apps/v1 deployments",
  PodDisruptionBudget: "/apis/policy/v1 poddisruptionbudgets",
  Role: "/apis/rbac.authorization.k8s.io/v1 roles",
  RoleBinding: "/apis/rbac.authorization.k8s.io/v1 rolebindings",
  Ingress: "/apis/networking.k8s.io/v1 ingresses",
  NetworkPolicy: "/apis/networking.k8s.io/v1 networkpolicies",
  Job: "/apis/batch/v1 jobs",
  Pod: "/api/v1 pods",
};

/** Our templates have kind, name and namespace in their first lines. */
function documentsOf(yaml: string): Doc[] {
  return yaml.split(/^---\n/m).flatMap((text) => {
    const find = (pattern: RegExp) => pattern.exec(text)?.[1] ?? "";
    const kind = find(/^kind: (\w+)$/m);
    return kind === ""
      ? []
      : [{ kind, name: find(/^ {2}name: (\S+)$/m), namespace: find(/^ {2}namespace: (\S+)$/m), text }];
  });
}

/** Applies it as a dry run, with every field checked by the real API server. */
async function dryRun({ kind, namespace, name, text }: Doc): Promise<object> {
  const [root, plural] = plurals[kind]?.split(" ") ?? [];
  const { token, url, ca } = world.plane.address("admin");
  assert.ok(root !== undefined && ca !== null, kind);
  const query = "fieldManager=test&force=true&fieldValidation=Strict&dryRun=All";
  const inside = kind === "Namespace" ? "" : `/namespaces/${namespace}`;
  const target = `${url}${root}${inside}/${plural}/${name}?${query}`;
  const file = `${world.plane.directory}/manifest.yaml`;
  await writeFile(file, text);
  const headers = ["-H", `Authorization: Bearer ${await token()}`, "-H", "content-type: application/apply-patch+yaml"];
  const flags = ["-sS", "--cacert", world.plane.caFile, "-X", "PATCH", ...headers, "--data-binary", `@${file}`, target];
  const answer = JSON.parse((await run("curl", flags)).stdout);
  assert.notEqual(answer.kind, "Status", `${kind} ${name}: ${answer.message}`);
  return {
    metadata: { name, namespace: namespace ?? "", labels: answer.metadata.labels },
    ...Object.fromEntries(Object.entries(answer).filter(([key]) => key !== "metadata")),
  };
}

for (const chart of charts) {
  test(`${chart}: every set of values passes helm lint, and a real API server accepts every object`, async () => {
    const files = valuesOf(chart);
    assert.equal(files.length, 3);
    const namespace = await world.plane.newNamespace();
    const agents = await world.plane.newNamespace();
    for (const values of files) {
      await run(helm, ["lint", "--strict", `deploy/helm/${chart}`, "-f", values]);
      const documents = documentsOf(
        (await template(chart, namespace, ["-f", values])).replaceAll(
          /^( {2}namespace: )(agents|staging|builds)$/gm,
          `$1${agents}`,
        ),
      );
      assert.ok(documents.length >= 3, values);
      for (const document of documents) await dryRun(document);
    }
  });
}

test("a real API server accepts the Job for Argo CD and Flux, in a namespace with restricted pods", async () => {
  const namespace = await world.plane.newNamespace();
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  const label = { method: "PATCH", path: `/api/v1/namespaces/${namespace}`, body: { metadata: { labels } } };
  await world.plane.admin.call({ ...label, type: "merge", signal: AbortSignal.timeout(30_000) });
  const [job] = documentsOf(readFileSync("deploy/gitops/job.yaml", "utf8"));
  assert.ok(job);
  const accepted = (await dryRun({ ...job, namespace })) as { spec: { template: { spec: object } } };
  const { spec } = accepted.spec.template;
  // The controller makes it a moment after the namespace, and no pod is accepted before.
  await eventually(
    () => world.plane.admin.get("ServiceAccount", namespace, "default", AbortSignal.timeout(10_000)),
    (found) => found !== null,
  );
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "apply" }, spec };
  await dryRun({ kind: "Pod", name: "apply", namespace, text: JSON.stringify(pod) });
});

test("builds reach DNS, the control plane, the registry and the internet, and nothing reaches them", async () => {
  const namespace = await world.plane.newNamespace();
  const policyWith = async (...flags: string[]) => {
    const values = ["-f", "deploy/helm/pierhead-listener/ci/everything.yaml", "--set", `builds.namespace=${namespace}`];
    const yaml = await template("pierhead-listener", "x", [...values, ...flags]);
    return documentsOf(yaml).find(({ kind, name }) => kind === "NetworkPolicy" && name.endsWith("-builds"));
  };
  const { spec } = (await dryRun((await policyWith()) as Doc)) as { spec: { egress: { to?: object[] }[] } };
  assert.partialDeepStrictEqual(spec, {
    podSelector: { matchExpressions: [{ key: "pierhead.dev/build", operator: "Exists" }] },
    policyTypes: ["Ingress", "Egress"],
  });
  assert.equal("ingress" in spec, false);
  const [dns, { to = [] } = {}] = spec.egress;
  assert.deepEqual(dns, { ports: ["UDP", "TCP"].map((protocol) => ({ port: 53, protocol })) });
  const [internet, , ...others] = to;
  const { cidr, except } = (internet as { ipBlock: { cidr: string; except: string[] } }).ipBlock;
  assert.equal(cidr, "0.0.0.0/0");
  assert.ok(["10.0.0.0/8", "169.254.0.0/16"].every((range) => except.includes(range)));
  assert.deepEqual(others, [
    { ipBlock: { cidr: "10.9.0.0/24" } },
    {
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "pierhead" } },
      podSelector: { matchLabels: { "app.kubernetes.io/name": "pierhead" } },
    },
    { ipBlock: { cidr: "10.1.2.3/32" } },
  ]);
  assert.equal(await policyWith("--set", "builds.networkPolicy.enabled=false"), undefined);
});

test("the gateway in the cluster has one wildcard route, restricted pods, and agents that only it reaches", async () => {
  const namespace = await world.plane.newNamespace();
  const agents = await world.plane.newNamespace();
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  const label = { method: "PATCH", path: `/api/v1/namespaces/${namespace}`, body: { metadata: { labels } } };
  await world.plane.admin.call({ ...label, type: "merge", signal: AbortSignal.timeout(30_000) });
  const rendered = async (...flags: string[]) => {
    const all = [
      `namespaces={${agents}}`,
      "controlPlaneUrl=https://x.example.com",
      "listenerKey=k",
      "gateway.enabled=true",
    ];
    const yaml = await template(
      "pierhead-listener",
      namespace,
      [...all, ...flags].flatMap((one) => ["--set", one]),
    );
    return documentsOf(yaml).filter(
      ({ text }) => text.includes("pierhead-agent-gateway") || text.includes("args: [listener]"),
    );
  };
  const named = async (documents: Doc[], kind: string, name: string) => {
    const found = documents.find((one) => one.kind === kind && one.name === name);
    assert.ok(found, `${kind} ${name}`);
    return (await dryRun(found)) as { spec: never };
  };
  const documents = await rendered("agents.url=https://{slug}.agents.example.com", "agents.ingressClass=nginx");
  for (const document of documents) await dryRun(document);
  const { spec: server } = await named(documents, "Deployment", "pierhead-release-gateway");
  const { template: pod } = server as { template: { spec: object } };
  await dryRun({
    kind: "Pod",
    name: "g",
    namespace,
    text: JSON.stringify({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "g" },
      spec: { ...pod.spec, serviceAccountName: "default" },
    }),
  });
  assert.partialDeepStrictEqual((await named(documents, "Ingress", "pierhead-release-gateway")).spec, {
    rules: [
      {
        host: "*.agents.example.com",
        http: { paths: [{ path: "/", backend: { service: { name: "pierhead-release-gateway" } } }] },
      },
    ],
  });
  assert.partialDeepStrictEqual((await named(documents, "NetworkPolicy", "pierhead-release-gateway-agents")).spec, {
    podSelector: {
      matchLabels: { "app.kubernetes.io/managed-by": "pierhead" },
      matchExpressions: [{ key: "app.kubernetes.io/component", operator: "In", values: ["server", "queue"] }],
    },
    ingress: [{ from: [{ podSelector: { matchLabels: { "app.kubernetes.io/name": "pierhead-agent-gateway" } } }] }],
  });
  assert.partialDeepStrictEqual((await named(documents, "PodDisruptionBudget", "pierhead-release-gateway")).spec, {
    maxUnavailable: 1,
  });
  const inside = (await rendered()).map(({ text }) => text).join("");
  assert.match(inside, new RegExp(`"http://pierhead-release-gateway\\.${namespace}\\.svc/d/\\{slug\\}"`));
  assert.match(inside, new RegExp(`"http://pierhead-release-gateway-counts\\.${namespace}\\.svc:8127"`));
  const byPath = await rendered("agents.url=https://agents.example.com/d/{slug}", "agents.ingressClass=nginx");
  assert.partialDeepStrictEqual((await named(byPath, "Ingress", "pierhead-release-gateway")).spec, {
    rules: [{ host: "agents.example.com", http: { paths: [{ path: "/d" }] } }],
  });
  const gatewayApi = (
    await rendered("agents.url=https://{slug}.agents.example.com", "agents.gateway=infra/web")
  ).filter(({ kind }) => kind === "HTTPRoute");
  assert.equal(gatewayApi.length, 1);
  assert.match(gatewayApi[0]?.text ?? "", /hostnames: \["\*\.agents\.example\.com"\]/);
});

test("the chart's registry has restricted pods, and only builds reach the port for pushes", async () => {
  const namespace = await world.plane.newNamespace();
  const agents = await world.plane.newNamespace();
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  const label = { method: "PATCH", path: `/api/v1/namespaces/${namespace}`, body: { metadata: { labels } } };
  await world.plane.admin.call({ ...label, type: "merge", signal: AbortSignal.timeout(30_000) });
  const common = [`namespaces={${agents}}`, "controlPlaneUrl=https://x.example.com", "listenerKey=k"];
  const rendered = async (...flags: string[]) =>
    documentsOf(
      await template(
        "pierhead-listener",
        namespace,
        [...common, ...flags].flatMap((one) => ["--set", one]),
      ),
    );
  const on = ["registry.enabled=true", "registry.password=0123456789abcdef", `builds.namespace=${agents}`];
  const documents = (await rendered(...on)).filter(({ name }) => name.startsWith("pierhead-release-registry"));
  assert.deepEqual(documents.map(({ kind, name }) => `${kind} ${name.slice("pierhead-release-".length)}`).toSorted(), [
    "ConfigMap registry",
    "Deployment registry",
    "NetworkPolicy registry",
    "PersistentVolumeClaim registry",
    "Secret registry",
    "Secret registry-pull",
    "Secret registry-push",
    "Service registry",
    "Service registry-nodes",
  ]);
  const accepted = new Map<string, { spec: never }>();
  for (const document of documents)
    accepted.set(`${document.kind} ${document.name}`, (await dryRun(document)) as { spec: never });
  const { spec } = accepted.get("Deployment pierhead-release-registry") ?? {};
  const { template: pod } = spec as unknown as { template: { spec: object } };
  const text = JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name: "registry" }, spec: pod.spec });
  await dryRun({ kind: "Pod", name: "registry", namespace, text });
  const { ingress } = (accepted.get("NetworkPolicy pierhead-release-registry") as unknown as Policy).spec;
  assert.deepEqual(ingress, [
    {
      ports: [{ port: "push", protocol: "TCP" }],
      from: [
        {
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": agents } },
          podSelector: { matchExpressions: [{ key: "pierhead.dev/build", operator: "Exists" }] },
        },
      ],
    },
    { ports: [{ port: "pull", protocol: "TCP" }] },
  ]);

  const listenerWith = async (...flags: string[]) => {
    const found = (await rendered(...flags)).find(
      ({ kind, name }) => kind === "Deployment" && name === "pierhead-release",
    );
    const variables = found?.text.matchAll(
      /name: PIERHEAD_KUBERNETES_(BUILD_\w*REGISTRY\w*|PULL_SECRETS), value: (.+) }/g,
    );
    return Object.fromEntries([...(variables ?? [])].map(([, name, value]) => [name, JSON.parse(value ?? "")]));
  };
  assert.deepEqual(await listenerWith(...on, "agents.imagePullSecrets={mine}", "registry.pullHost=images.internal"), {
    BUILD_REGISTRY: `pierhead-release-registry.${namespace}.svc:5000/agents`,
    BUILD_PULL_REGISTRY: "images.internal/agents",
    BUILD_REGISTRY_SECRET: "pierhead-release-registry-push",
    BUILD_REGISTRY_INSECURE: "true",
    PULL_SECRETS: "mine,pierhead-release-registry-pull",
  });
  assert.equal((await listenerWith(...on))["BUILD_PULL_REGISTRY"], "localhost:30500/agents");
  assert.deepEqual(await listenerWith(), { PULL_SECRETS: "" });
  const without = await rendered("builds.registry=registry.example.com/agents");
  assert.ok(without.every(({ text: one }) => !one.includes("pierhead-registry")));
  assert.equal("BUILD_PULL_REGISTRY" in (await listenerWith("builds.registry=registry.example.com/agents")), false);
});

interface Policy {
  spec: { ingress: object[] };
}

test("a new installation gets the gateway, and an upgrade neither adds the gateway nor removes it", async () => {
  const agents = await world.plane.newNamespace();
  const kubeconfig = ["--kubeconfig", `${world.plane.directory}/kubeconfig`];
  const values = [
    ...[`namespaces={${agents}}`, "createNamespaces=false", "controlPlaneUrl=https://x.example.com", "listenerKey=k"],
  ].flatMap((one) => ["--set", one]);
  const chart = "deploy/helm/pierhead-listener";
  const [first, second] = [await world.plane.newNamespace(), await world.plane.newNamespace()] as const;
  const hasGateway = async (namespace: string) => {
    const signal = AbortSignal.timeout(30_000);
    return (await world.plane.admin.get("Deployment", namespace, `pierhead-${namespace}-gateway`, signal)) !== null;
  };
  const install = (namespace: string, ...more: string[]) =>
    run(helm, ["upgrade", "--install", namespace, chart, "-n", namespace, ...kubeconfig, ...values, ...more]);
  await install(first);
  assert.equal(await hasGateway(first), true);
  await install(first, "--set", "replicas=3");
  assert.equal(await hasGateway(first), true, "an upgrade keeps it");
  // As every installation of the chart whose default was off.
  await install(second, "--set", "gateway.enabled=false");
  const { stdout } = await install(second, "--reset-values");
  assert.equal(await hasGateway(second), false, "an upgrade adds none");
  assert.match(stdout, /This installation has no gateway.*Set gateway\.enabled=true/);
  await install(second, "--set", "gateway.enabled=true");
  assert.equal(await hasGateway(second), true);
});

test("both charts are pushed to a registry, installed from there in the version before, and upgraded", async () => {
  await using registry = await startChartRegistry();
  const { directory, address } = registry;
  const kubeconfig = ["--kubeconfig", `${world.plane.directory}/kubeconfig`];
  const agents = await world.plane.newNamespace();
  const settings: Record<string, string[]> = {
    pierhead: ["existingSecret=pierhead", "publicUrl=https://pierhead.example.com", "replicas=3"],
    "pierhead-listener": [
      `namespaces={${agents}}`,
      "createNamespaces=false",
      "controlPlaneUrl=https://x.example.com",
      "listenerKey=k",
      "gateway.enabled=false",
    ],
  };
  for (const chart of charts) {
    const namespace = await world.plane.newNamespace();
    const versions = [
      "0.0.9",
      /^version: (\S+)$/m.exec(readFileSync(`deploy/helm/${chart}/Chart.yaml`, "utf8"))?.[1] ?? "",
    ];
    for (const version of versions) {
      await run(helm, ["package", `deploy/helm/${chart}`, "--version", version, "--destination", directory]);
      await run(helm, ["push", `${directory}/${chart}-${version}.tgz`, `oci://${address}/charts`, "--plain-http"]);
    }
    // No kubelet runs the migrations, which are a hook.
    const from = (version: string | undefined) => [
      "r",
      `oci://${address}/charts/${chart}`,
      "--plain-http",
      "--version",
      version ?? "",
      "-n",
      namespace,
      "--no-hooks",
      ...kubeconfig,
    ];
    await run(helm, ["install", ...from(versions[0]), ...(settings[chart] ?? []).flatMap((one) => ["--set", one])]);
    const find = async () => {
      const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
      const { items } = await world.plane.admin.call<{
        items: { metadata: { labels: Record<string, string>; uid: string }; spec: { replicas: number } }[];
      }>({
        ...{ method: "GET", path, signal: AbortSignal.timeout(30_000) },
      });
      assert.equal(items.length, 1, chart);
      return items[0];
    };
    const before = await find();
    await run(helm, ["upgrade", ...from(versions[1]), "--reset-then-reuse-values"]);
    const after = await find();
    assert.deepEqual(
      [after?.metadata.uid, after?.spec.replicas],
      [before?.metadata.uid, before?.spec.replicas],
      "the same objects and settings",
    );
    const { stdout } = await run(helm, ["list", "-n", namespace, "--output", "json", ...kubeconfig]);
    const [{ chart: shown, revision, status }] = JSON.parse(stdout);
    assert.deepEqual([shown, revision, status], [`${chart}-${versions[1]}`, "2", "deployed"]);
  }
});

/** A registry of the CNCF distribution on loopback, over plain HTTP. */
async function startChartRegistry(): Promise<{ directory: string; address: string } & AsyncDisposable> {
  const program = findRegistryProgram();
  assert.ok(program !== null, "docker-registry (Debian: apt-get install docker-registry)");
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-charts-"));
  const address = `127.0.0.1:${await freePort()}`;
  const config = {
    version: "0.1",
    storage: { filesystem: { rootdirectory: path.join(directory, "data") } },
    http: { addr: address },
  };
  await writeFile(path.join(directory, "config.json"), JSON.stringify(config));
  const child = spawn(program, ["serve", path.join(directory, "config.json")], { stdio: "ignore" });
  const ended = once(child, "exit");
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
    await rm(directory, { recursive: true, force: true });
  };
  const isUp = () =>
    fetch(`http://${address}/v2/`).then(
      ({ ok }) => ok,
      () => false,
    );
  try {
    await eventually(isUp, (up) => up, { what: "the registry" });
  } catch (error) {
    await stop();
    throw error;
  }
  return { directory, address, [Symbol.asyncDispose]: stop };
}

test("values that cannot work are rejected by the chart with a readable message", async () => {
  const listener = (...flags: string[]) => template("pierhead-listener", "x", flags);
  await assert.rejects(listener(), /controlPlaneUrl/);
  const address = ["--set", "controlPlaneUrl=https://x.example.com"];
  await assert.rejects(listener(...address, "--set", "namespaces={y}"), /listenerKey or existingSecret is needed/);
  await assert.rejects(listener(...address, "--set", "listenerKey=k"), /namespaces is needed/);
  await assert.rejects(
    listener(...address, "--set", "listenerKey=k", "--set", "namespaces={y,x}"),
    /must not contain x, the namespace of the listener/,
  );
  const complete = [...address, "--set", "listenerKey=k", "--set", "namespaces={y}"];
  await assert.rejects(
    listener(...complete, "--set", "gateway.enabled=true", "--set", "agents.url=https://x.example.com/{slug}/api"),
    /agents\.url must be like/,
  );
  const withRegistry = [...complete, "--set", "registry.enabled=true"];
  await assert.rejects(listener(...withRegistry), /registry\.password is needed/);
  const password = "registry.password=0123456789abcdef";
  await assert.rejects(
    listener(...withRegistry, "--set", password, "--set", "builds.registry=registry.example.com/agents"),
    /builds\.registry and registry\.enabled exclude each other/,
  );
  await assert.rejects(template("pierhead", "x", ["--set", "publicUrl=https://x.example.com"]), /existingSecret/);
});

test("`listener install --print` prints the same manifests as the chart without the gateway", async () => {
  const namespace = await world.plane.newNamespace();
  const agents = await world.plane.newNamespace();
  const controlPlaneUrl = "https://pierhead.example.com";
  const flags = [`controlPlaneUrl=${controlPlaneUrl}`, "listenerKey=secret", "image.tag=9", "agents.gateway=infra/web"];
  flags.push(`namespaces={${agents}}`, "gateway.enabled=false", "programs=true");
  const yaml = await template(
    "pierhead-listener",
    namespace,
    flags.flatMap((one) => ["--set", one]),
  );
  const printed = installManifests({
    name: "pierhead-release",
    namespace,
    namespaces: [agents],
    controlPlaneUrl,
    listenerKey: "secret",
    image: "pierhead:9",
    version: "0.1.0",
    replicas: 2,
    agentsUrl: "",
    gateway: "infra/web",
    ingressClass: "",
    mayRunPrograms: true,
  }) as { kind: string; metadata: { name: string; namespace: string } }[];
  const byChart = await Promise.all(documentsOf(yaml).toSorted(byKind).map(dryRunLater()));
  const byCommand = await Promise.all(
    printed
      .map(({ kind, metadata, ...rest }) => ({ kind, ...metadata, text: JSON.stringify({ kind, metadata, ...rest }) }))
      .toSorted(byKind)
      .map(dryRunLater()),
  );
  assert.deepEqual(byCommand, byChart);
});

const byKind = (a: { kind: string }, b: { kind: string }) => (a.kind < b.kind ? -1 : 1);

/** In sequence, because they share a file. */
function dryRunLater(): (document: Doc) => Promise<object> {
  let last: Promise<unknown> = Promise.resolve();
  return (document) => {
    const next = last.then(() => dryRun(document));
    last = next;
    return next;
  };
}
