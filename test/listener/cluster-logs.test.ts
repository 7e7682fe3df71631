import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { createListenerClient } from "../../src/client/listener-client.ts";
import type { ClusterCompute, ClusterStatus } from "../../src/compute/cluster.ts";
import type { ClusterRun } from "../../src/contract/listeners/cluster.ts";
import { clusterFleet } from "../../src/listener/clusters/cluster-fleet.ts";
import { createListener } from "../../src/listener/listener.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { ControlPlane } from "./control-plane.ts";
import { eventually, newRun } from "./harness.ts";

test("reads the logs of a pod as long as it exists, and never again", async () => {
  await using site = await startSite();
  const [first, second] = [site.deploy(), site.deploy()];
  site.cluster.setPods(first, ["first-1", "first-2"]);
  site.cluster.setPods(second, ["second-1"]);
  await site.cluster.untilAsked(["first-1", "first-2", "second-1"]);
  // One pod is replaced, and all pods of another deployment go.
  site.cluster.setPods(first, ["first-2", "first-3"]);
  site.cluster.setPods(second, []);
  site.controlPlane.assign({ deployment_id: second, op: "delete" });
  await eventually(
    () => site.controlPlane.assignments.has(second),
    (isThere) => !isThere,
  );
  await site.cluster.untilAsked(["first-3"]);
  site.cluster.asked.clear();
  await site.cluster.untilAsked(["first-2", "first-3"], 5);
  assert.deepEqual([...site.cluster.asked.keys()].sort(), ["first-2", "first-3"]);
});

test("ships the logs of a pod before it is ready, and if it never is", async () => {
  await using site = await startSite();
  const deploymentId = site.deploy();
  site.cluster.phase = "starting";
  site.cluster.setPods(deploymentId, ["never-ready"]);
  await site.cluster.untilAsked(["never-ready"]);
});

async function startSite() {
  const controlPlane = new ControlPlane();
  const cluster = new Pods();
  const options = { logger: createLogger("silent"), instanceId: randomUUID(), version: "0.0.0" };
  const client = createListenerClient(controlPlane.send);
  const listener = createListener({ client, ...options }, clusterFleet({ cluster }));
  listener.start();
  return {
    controlPlane,
    cluster,
    deploy() {
      const deployment_id = randomUUID();
      const target = { ...newRun(), cluster: clusterRun };
      cluster.revisions.set(deployment_id, target.revision_id);
      controlPlane.assign({ deployment_id, target });
      return deployment_id;
    },
    async [Symbol.asyncDispose]() {
      await listener.stop();
      controlPlane.goAway();
    },
  };
}

const container = { cpuCores: 1, cpuLimitCores: 1, memoryMib: 512, memoryLimitMib: 512 };
const replicated = { ...container, minReplicas: 1, maxReplicas: 1 };
const clusterRun: ClusterRun = {
  ...{ namespace: null, spec: {}, secret_references: [], url: "https://agent.example.com", profile: "development" },
  sizes: {
    ...{ ...replicated, queue: replicated, redis: container },
    database: { ...container, storageGib: 1, connectionsMax: 100 },
  },
};

/** A cluster that consists of pods only. They come and go, and return a line for each read. */
class Pods implements ClusterCompute {
  readonly type = "kubernetes";
  readonly revisions = new Map<string, string>();
  /** How often the logs of each pod were read. */
  readonly asked = new Map<string, number>();
  phase: "starting" | "ready" = "ready";
  readonly #pods = new Map<string, string[]>();
  #changed: (deploymentId: string, isDrift: boolean) => void = () => {};

  setPods(deploymentId: string, names: string[]): void {
    this.#pods.set(deploymentId, names);
    this.#changed(deploymentId, false);
  }

  async untilAsked(names: string[], times = 1): Promise<void> {
    await eventually(
      () => names.map((name) => this.asked.get(name) ?? 0),
      (counts) => counts.every((count) => count >= times),
    );
  }

  async setAsleep(): Promise<void> {}

  isReached = async () => true;

  async inspect({ deploymentId }: { deploymentId: string }): Promise<ClusterStatus> {
    const revisionId = this.revisions.get(deploymentId) ?? "";
    const replicas = (this.#pods.get(deploymentId) ?? []).map((replica_id) => ({
      ...{ deployment_id: deploymentId, replica_id, revision_id: revisionId, phase: this.phase },
      ...{ address: null, restarts: 0, started_at: null, limits: { memory: "none", cpu: "none" } },
    }));
    return { revisionId, isReady: true, problems: [], replicas };
  }

  async stop() {}

  async readLogs(replicaId: string, after: string | null) {
    const count = (this.asked.get(replicaId) ?? 0) + 1;
    this.asked.set(replicaId, count);
    return { lines: [], cursor: after ?? "" };
  }

  facts = () => ({ capabilities: [], engine_version: "1" });
  apply = async () => ({ waitingFor: null, held: null });
  remove = async () => ({ isGone: true, because: null });
  list = async () => [];
  readLoads = async () => null;
  onChange(changed: (deploymentId: string, isDrift: boolean) => void): void {
    this.#changed = changed;
  }
  async close(): Promise<void> {}
}
