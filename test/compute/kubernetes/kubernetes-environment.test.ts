import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { ClusterPolicy } from "../../../src/compute/kubernetes/cluster-context.ts";
import { render } from "../../../src/compute/kubernetes/render/render.ts";
import type { Workload } from "../../../src/compute/kubernetes/workload.ts";
import type { ResourceSpec } from "../../../src/contract/deployments/resource-spec.ts";
import { effectiveSizes } from "../../../src/domain/sizes.ts";

test("a variable reaches the agent unchanged, even if it looks like a Kubernetes reference", () => {
  const values = ["$(PORT)", "$$(PORT)", "5$ or 5$$", "$"];
  const env = Object.fromEntries(values.map((value, index) => [`VALUE_${index}`, value]));
  const { rest } = render(workloadWith(env), { traits, policy, database: "external" });
  const { spec } = rest.find(({ kind }) => kind === "Deployment") as unknown as Rendered;
  const given = spec.template.spec.containers[0]?.env ?? [];
  assert.deepEqual(
    Object.keys(env).map((name) => expand(given.find((one) => one.name === name)?.value ?? "")),
    values,
  );
});

test("a deployment that names no cores reserves a quarter of one for each container, and its limits stay", () => {
  const coresOf = (spec: ResourceSpec) => {
    const workload = { ...workloadWith({}) };
    workload.cluster = { ...workload.cluster, spec, sizes: effectiveSizes(null, spec) };
    const { data, rest } = render(workload, { traits, policy, database: "plain" });
    return [...rest, ...data].flatMap(({ kind, spec: rendered }) => {
      if (kind !== "Deployment" && kind !== "StatefulSet") return [];
      const { requests, limits } = (rendered as Rendered["spec"]).template.spec.containers[0]?.resources ?? {};
      return [`${requests?.cpu} ${limits?.cpu}`];
    });
  };
  assert.deepEqual(coresOf({}), ["250m 2000m", "250m 2000m", "250m 2000m"]);
  assert.deepEqual(coresOf({ cpu: 1, redis_cpu: 0.5, db_cpu: 2 }), ["1000m 2000m", "2000m 4000m", "500m 1000m"]);
  // An autoscaler measures the load against the request.
  assert.deepEqual(coresOf({ min_scale: 1, max_scale: 2 })[0], "1000m 2000m");
});

test("replicas of the durable engines scale by the runs that wait in their database", () => {
  const scalersOf = (engine: Workload["engine"], database: "plain" | "external", hasKeda = true) => {
    const spec = { min_scale: 0, max_scale: 3 };
    const workload = { ...workloadWith({}), engine };
    workload.cluster = { ...workload.cluster, spec, sizes: effectiveSizes(null, spec) };
    const { rest } = render(workload, { traits: { ...traits, hasMetrics: true, hasKeda }, policy, database });
    return rest.flatMap((manifest) => {
      const { kind, spec: scaler } = manifest as unknown as { kind: string; spec: Scaler };
      if (kind === "HorizontalPodAutoscaler") return ["by load"];
      const queries = scaler?.triggers?.flatMap(({ metadata }) => metadata.query ?? []) ?? [];
      return kind === "ScaledObject" ? [scaler.minReplicaCount, ...queries] : [];
    });
  };
  assert.deepEqual(scalersOf("aegra", "plain"), [1, "select count(*) from aegra.runs where status = 'pending'"]);
  assert.match(String(scalersOf("postgres", "plain")[1]), /from langgraph\.runs where \(status = 'pending'/);
  assert.deepEqual(scalersOf("aegra", "external"), [1], "a database elsewhere is not asked");
  assert.deepEqual(scalersOf("aegra", "plain", false), ["by load"]);
  assert.deepEqual(scalersOf("memory", "plain"), ["by load"]);
});

test("workers of the durable engines run the same program as the servers and scale apart from them", () => {
  const partsOf = (engine: Workload["engine"], spec: ResourceSpec, secrets: Record<string, string> = {}) => {
    const workload = { ...workloadWith({}), engine, secrets };
    workload.cluster = { ...workload.cluster, spec, sizes: effectiveSizes(null, spec) };
    const { rest } = render(workload, {
      traits: { ...traits, hasMetrics: true, hasKeda: true },
      policy,
      database: "plain",
    });
    return rest.flatMap((manifest): Part[] => {
      const { kind, metadata, spec: rendered } = manifest as unknown as Rendered & ScalerObject;
      if (kind === "ScaledObject") {
        const query = rendered.triggers?.find(({ metadata: { query } }) => query !== undefined)?.metadata.query;
        return [[metadata.name, query ?? "by load", rendered.minReplicaCount, rendered.maxReplicaCount]];
      }
      if (kind === "HorizontalPodAutoscaler") return [[metadata.name, "by load", rendered.minReplicas]];
      if (kind !== "Deployment") return [];
      const [container] = rendered.template.spec.containers;
      const jobs = container?.env.find(({ name }) => name === "N_JOBS_PER_WORKER")?.value;
      return [[metadata.name, container?.command, jobs, container?.readinessProbe !== undefined]];
    });
  };
  const name = "agent-1234abcd";
  const spec = { min_scale: 1, max_scale: 2, queue_min_scale: 0, queue_max_scale: 8 };
  const waiting = { aegra: "from aegra.runs where", postgres: "from langgraph.runs where" };
  for (const engine of ["aegra", "postgres"] as const) {
    const [server, queue, scaler, scalerOfQueue] = partsOf(engine, spec);
    assert.deepEqual(server, [name, undefined, "0", true]);
    assert.deepEqual(queue, [`${name}-queue`, undefined, "10", true]);
    assert.deepEqual(scaler, [name, "by load", 1]);
    assert.ok(String(scalerOfQueue?.[1]).includes(waiting[engine]));
    assert.deepEqual([scalerOfQueue?.[0], ...(scalerOfQueue?.slice(2) ?? [])], [`${name}-queue`, 0, 8]);
  }
  assert.deepEqual(partsOf("postgres", { queue_cpu: 1 }, { N_JOBS_PER_WORKER: "3" }), [
    [name, undefined, "0", true],
    [`${name}-queue`, undefined, undefined, true],
  ]);
  // Only one process knows the runs in its memory.
  assert.deepEqual(partsOf("memory", { queue_cpu: 1 }), [[name, undefined, undefined, true]]);
  assert.deepEqual(partsOf(undefined, { queue_cpu: 1 })[1], [
    `${name}-queue`,
    ["/storage/queue_entrypoint.sh"],
    "10",
    false,
  ]);
});

test("pods name an image that was built here as nodes know the registry, and any other image as it is", () => {
  const builtImages = { pushedTo: "registry.pierhead.svc:5000/agents", pulledFrom: "localhost:30500/agents" };
  const imageOf = (image: string) => {
    const secrets = { PIERHEAD_CORE_COMMAND: "/core" };
    const workload = { ...workloadWith({}), image, secrets };
    const { rest } = render(workload, { traits, policy: { ...policy, builtImages }, database: "plain" });
    const { spec } = rest.find(({ kind }) => kind === "Deployment") as unknown as {
      spec: { template: { spec: { containers: { image: string }[] } } };
    };
    const [server, core] = spec.template.spec.containers;
    assert.equal(core?.image, server?.image);
    return server?.image;
  };
  assert.equal(imageOf("registry.pierhead.svc:5000/agents@sha256:ab"), "localhost:30500/agents@sha256:ab");
  assert.equal(imageOf("registry.pierhead.svc:5000/agents:key"), "localhost:30500/agents:key");
  for (const other of ["registry.pierhead.svc:5000/agents-of-others:1", "ghcr.io/acme/agent:1"])
    assert.equal(imageOf(other), other);
});

type Part = (string | number | boolean | string[] | undefined)[];

interface ScalerObject {
  kind: string;
  metadata: { name: string };
  spec: Scaler & { minReplicas?: number; maxReplicaCount?: number };
}

interface Scaler {
  minReplicaCount: number;
  triggers: { metadata: { query?: string } }[];
}

test("the first pod of a deployment whose start migrates a database is alone, and finds it in DATABASE_URL if asked", () => {
  const deploymentOf = (parts: Partial<Workload>) => {
    const workload = { ...workloadWith({}), asksForDatabase: true, startsAlone: true, isFirst: true, ...parts };
    workload.cluster = { ...workload.cluster, sizes: effectiveSizes(null, { min_scale: 8, max_scale: 9 }) };
    const { rest } = render(workload, { traits: { ...traits, hasMetrics: true }, policy, database: "plain" });
    const { spec } = rest.find(({ kind }) => kind === "Deployment") as unknown as Rendered;
    const names = spec.template.spec.containers[0]?.env.map(({ name }) => name) ?? [];
    return {
      replicas: spec.replicas,
      surge: spec.strategy.rollingUpdate.maxSurge,
      hasUrl: names.includes("DATABASE_URL"),
      scalers: rest.filter(({ kind }) => kind === "HorizontalPodAutoscaler").length,
    };
  };
  assert.deepEqual(deploymentOf({}), { replicas: 1, surge: 1, hasUrl: true, scalers: 0 });
  assert.deepEqual(deploymentOf({ isFirst: false }), { replicas: undefined, surge: 1, hasUrl: true, scalers: 1 });
  const plain = { startsAlone: false, asksForDatabase: false };
  assert.deepEqual(deploymentOf(plain), { replicas: undefined, surge: "25%", hasUrl: false, scalers: 1 });
});

interface Resources {
  requests: { cpu: string };
  limits: { cpu: string };
}

interface Container {
  env: { name: string; value?: string }[];
  command?: string[];
  readinessProbe?: object;
  resources?: Resources;
}

interface Rendered {
  spec: {
    replicas?: number;
    strategy: { rollingUpdate: { maxSurge: number | string } };
    template: { spec: { containers: Container[] } };
  };
}

/** Expands a value as a kubelet does (third_party/forked/golang/expansion): `$$` is `$`, and `$(NAME)` is a variable. */
const expand = (value: string) =>
  value.replace(/\$\$|\$\((\w+)\)/g, (found, name) => (found === "$$" ? "$" : `<value of ${name}>`));

const traits = {
  hasMetrics: false,
  hasKeda: false,
  hasCnpg: false,
  hasSnapshots: false,
  hasGatewayApi: false,
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
  agentUser: 1000,
  postgresUser: 999,
  allowsNetworkVolumes: false,
  postgresImage: "postgres",
  redisImage: "redis",
  dataPolicy: "delete",
  snapshotClass: null,
};

function workloadWith(env: Record<string, string>): Workload {
  return {
    deploymentId: randomUUID(),
    tenantId: randomUUID(),
    revisionId: randomUUID(),
    slug: "agent-1234abcd",
    ...{
      listenerId: randomUUID(),
      isServing: false,
      maySleep: false,
      generation: 1,
      epoch: 1,
      image: "registry.example.com/agent:1",
      healthPath: "/ok",
      secrets: {},
      env,
    },
    startTimeoutMs: 60_000,
    drainTimeoutMs: 10_000,
    cluster: {
      namespace: "agents",
      spec: {},
      sizes: effectiveSizes(null, {}),
      secret_references: [],
      url: "https://agent.example.com",
      profile: "development",
    },
  };
}
