import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiServer } from "../../../src/compute/kubernetes/api/api-server.ts";
import { KubernetesBuilds } from "../../../src/compute/kubernetes/builds/kubernetes-builds.ts";
import { renderBuildJob } from "../../../src/compute/kubernetes/builds/render-build.ts";

const id = "0f1e2d3c-0000-4000-8000-000000000001";
const signal = AbortSignal.timeout(20_000);
const policy = {
  ...{ namespace: "builds", registry: "registry.example.com/agents", isInsecure: false, registrySecret: "push" },
  ...{ builderImage: "buildkit", pushImage: "pierhead", memoryMib: 512, cpuCores: 1 },
  ...{ programs: { push: "/push.js", restoreCache: "/restore.js", removeImages: "/remove.js" }, hasCache: true },
  ...{ nodeSelector: { pool: "builds" }, tolerations: [{ key: "builds", operator: "Exists" }] },
};

test("a build that the cluster ends is not reported as a fault of the project", async () => {
  const killed = [{ name: "build", state: { terminated: { exitCode: 143 } } }];
  const taint = { type: "DisruptionTarget", status: "True", message: "taint manager deleting Pod." };
  const drained = { initContainerStatuses: killed, conditions: [taint] };
  const again = { image: null, reason: "BuilderFailed" };
  const ends = [
    [
      { pod: drained },
      { ...again, message: "The cluster stopped the build: taint manager deleting Pod. Deploy again." },
    ],
    [
      { pod: { phase: "Failed", reason: "OutOfcpu", message: "Node didn't have enough resource: cpu" } },
      { ...again, message: "The cluster stopped the build: Node didn't have enough resource: cpu. Deploy again." },
    ],
    [
      { pod: { phase: "Failed", reason: "Evicted", message: "The node was low on resource: memory." } },
      { ...again, message: "The cluster stopped the build: The node was low on resource: memory. Deploy again." },
    ],
    [
      { job: { type: "Failed", status: "True", reason: "BackoffLimitExceeded", message: "too many" } },
      { ...again, message: "The cluster stopped the build: its pod was taken away (too many). Deploy again." },
    ],
    [
      {
        job: { type: "FailureTarget", status: "True", reason: "DeadlineExceeded" },
        pod: { initContainerStatuses: killed },
      },
      { image: null, reason: "Timeout", message: "The build did not end in time and was stopped." },
    ],
  ] as const;
  for (const [state, end] of ends) {
    await using cluster = await startCluster(state);
    assert.deepEqual(await cluster.builds.inspect(id, signal), end);
  }
});

test("the log of a build that does not start says why", async () => {
  const unschedulable = { type: "PodScheduled", status: "False", message: "0/1 nodes are available: too many pods." };
  const messageOf = async (state: Parameters<typeof startCluster>[0]) => {
    await using cluster = await startCluster(state);
    const { lines } = await cluster.builds.readLog(id, null, signal);
    return lines.map(({ message }) => message).join();
  };
  assert.equal(
    await messageOf({ pod: { phase: "Pending", conditions: [unschedulable] } }),
    "The build waits for a node with room: 0/1 nodes are available: too many pods.",
  );
  assert.match(await messageOf({}), /^The cluster creates no pod .* kubectl -n builds describe job build-0f1e/);
});

test("a log that is read again from the beginning has the same lines", async () => {
  const log = ["#5 [1/2] FROM node", "#5 DONE 0.1s", "#6 [2/2] RUN npm ci", "#6 0.5 added 12 packages", "#6 DONE 1s"];
  const running = [{ name: "build", state: { running: {} } }];
  await using cluster = await startCluster({ pod: { phase: "Pending", initContainerStatuses: running }, log });
  const read = async () => (await cluster.builds.readLog(id, null, signal)).lines;
  const first = await read();
  assert.deepEqual(
    first.map(({ message }) => message),
    ["> FROM node", "> RUN npm ci", "added 12 packages"],
  );
  assert.deepEqual(await read(), first);
});

test("a pod runs on the nodes of builds, which pull its images with a Secret that may be missing", () => {
  const build = {
    ...{ id, deploymentId: id, tag: "a".repeat(64), dockerfile: "Dockerfile" },
    ...{ contextUrl: "https://pierhead.example.com/secret", timeoutS: 60, diskBytesMax: 1024 ** 3 },
  };
  const job = renderBuildJob(build, policy, id);
  assert.partialDeepStrictEqual(job["spec"], {
    template: {
      spec: {
        imagePullSecrets: [{ name: "push" }],
        nodeSelector: policy.nodeSelector,
        tolerations: policy.tolerations,
        volumes: [{ name: "registry", secret: { secretName: "push", optional: true } }],
      },
    },
  });
  assert.doesNotMatch(JSON.stringify(job), /pierhead\.example\.com/);
});

/** An API server with the Job of a build, created long ago, with its pod and with the log of its builder. */
async function startCluster({ job, pod, log = [] }: { job?: object; pod?: object; log?: string[] }) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://cluster");
    const metadata = { name: `build-${id}`, uid: id, creationTimestamp: "2026-01-01T00:00:00Z" };
    const pods = pod === undefined ? [] : [{ metadata: { name: "build-pod" }, status: pod }];
    const lines = log.map((line, at) => `2026-11-22T21:19:44.00000000${at}Z ${line}\n`).join("");
    if (pathname.endsWith("/log")) return void response.end(lines);
    if (pathname.endsWith("/pods")) return void response.end(JSON.stringify({ items: pods, metadata: {} }));
    response.end(JSON.stringify({ metadata, status: { conditions: job === undefined ? [] : [job] } }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = new ApiServer({ url, ca: null, token: async () => "token" });
  return {
    builds: new KubernetesBuilds(api, policy),
    async [Symbol.asyncDispose]() {
      api.close();
      server.close();
    },
  };
}
