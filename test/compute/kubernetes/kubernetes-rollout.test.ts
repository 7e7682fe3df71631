import assert from "node:assert/strict";
import { test } from "node:test";
import { componentLabel, revisionAnnotation } from "../../../src/compute/kubernetes/render/names.ts";
import { lastExitOf } from "../../../src/compute/kubernetes/watch/exits.ts";
import {
  type ClusterView,
  crashStreakOf,
  type DeploymentView,
  type PodView,
  readRollout,
} from "../../../src/compute/kubernetes/watch/rollout.ts";

/** A first revision that never became ready and has timed out, and the next one just written over it. */
const seenByNobody: ClusterView = {
  deployments: [deploymentOf("second", { generation: 2, observedGeneration: 1 })],
  replicaSets: [replicaSetOf("a1", 1)],
  pods: [podOf("first", "a1")],
  claims: [],
  refusals: [],
  nowMs: Date.parse("2026-01-01T00:10:00Z"),
};

test("problems of the previous revision are not reported for the one that was just written", () => {
  const { isReady, findings } = readRollout(seenByNobody);
  assert.deepEqual({ isReady, findings }, { isReady: false, findings: [] });
  // The lists are not from the same moment: the Deployment may be newer than its ReplicaSets.
  const [seen] = [deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false })];
  assert.deepEqual(readRollout({ ...seenByNobody, deployments: [seen] }).findings, []);
});

test("pods that have just become ready have started, and are ready to replace others once they are available", () => {
  const stateWith = (readyReplicas: number, availableReplicas: number) => {
    const deployment = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false });
    deployment.status = { ...deployment.status, readyReplicas, availableReplicas };
    const { isStarted, isReady } = readRollout({ ...seenByNobody, deployments: [deployment], pods: [] });
    return { isStarted, isReady };
  };
  assert.deepEqual(stateWith(0, 0), { isStarted: false, isReady: false });
  assert.deepEqual(stateWith(1, 0), { isStarted: true, isReady: false });
  assert.deepEqual(stateWith(1, 1), { isStarted: true, isReady: true });
});

test("the revision's own problems are reported with their weight", () => {
  const inTime = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false });
  const replicaSets = [replicaSetOf("a1", 1), replicaSetOf("b2", 2)];
  const pods = [podOf("first", "a1"), podOf("second", "b2")];
  const { findings } = readRollout({ ...seenByNobody, deployments: [inTime], replicaSets, pods });
  assert.deepEqual(
    findings.map(({ weight, cause }) => [weight, cause.reason]),
    [["now", "StartError"]],
  );
  const overdue = deploymentOf("second", { generation: 2, observedGeneration: 2 });
  const late = readRollout({ ...seenByNobody, deployments: [overdue], replicaSets, pods: [] });
  assert.deepEqual(
    late.findings.map(({ weight, cause }) => [weight, cause.reason]),
    [["now", "NotHealthy"]],
  );
});

test("temporary problems of a busy node get the grace period", () => {
  const inTime = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false });
  const weightOf = (reason: string, message: string) => {
    const pod = podOf("second", "b2");
    for (const status of pod.status.containerStatuses ?? []) status.state = { waiting: { reason, message } };
    const view = { ...seenByNobody, deployments: [inTime], replicaSets: [replicaSetOf("b2", 2)], pods: [pod] };
    return readRollout(view).findings.map(({ weight }) => weight);
  };
  const unsynced = "failed to sync secret cache: timed out waiting for the condition";
  assert.deepEqual(weightOf("CreateContainerConfigError", unsynced), ["grace"]);
  assert.deepEqual(weightOf("CreateContainerError", "context deadline exceeded"), ["grace"]);
  const reserved = 'failed to reserve container name "api-server_a_0": name "api-server_a_0" is reserved for "818fcf"';
  assert.deepEqual(weightOf("CreateContainerError", reserved), ["grace"]);
  assert.deepEqual(weightOf("CreateContainerConfigError", 'secret "theirs" not found'), ["now"]);
  assert.deepEqual(weightOf("InvalidImageName", "couldn't parse image name"), ["now"]);
});

test("a server that keeps exiting with code 0 has exited; an init container that succeeded in the end has not failed", () => {
  const inTime = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false });
  const causesOf = (status: Partial<PodView["status"]>) => {
    const pod = podOf("second", "b2");
    pod.status = { phase: "Pending", ...status };
    const view = { ...seenByNobody, deployments: [inTime], replicaSets: [replicaSetOf("b2", 2)], pods: [pod] };
    return readRollout(view).findings.map(({ cause }) => [cause.reason, cause.exit_code]);
  };
  const container = (parts: object) => [{ name: "a", image: "agent:1", restartCount: 3, ...parts }];
  const ended = (exitCode: number) => ({ terminated: { exitCode } });
  const loops = { state: { waiting: { reason: "CrashLoopBackOff" } } };
  assert.deepEqual(causesOf({ containerStatuses: container({ ...loops, lastState: ended(0) }) }), [["Exited", 0]]);
  assert.deepEqual(causesOf({ initContainerStatuses: container({ state: ended(0), lastState: ended(1) }) }), []);
  assert.deepEqual(causesOf({ initContainerStatuses: container({ ...loops, lastState: ended(1) }) }), [
    ["InitFailed", 1],
  ]);
});

test("a server that has crashed but has been running for a while may become ready until the deadline", () => {
  const inTime = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false });
  const foundOf = (startedAt: string, deployment = inTime, ready = false) => {
    const pod = podOf("second", "b2");
    const states = { ready, state: { running: { startedAt } }, lastState: { terminated: { exitCode: 1 } } };
    pod.status = { containerStatuses: [{ name: "api-server", image: "agent:1", restartCount: 2, ...states }] };
    const view = { ...seenByNobody, deployments: [deployment], replicaSets: [replicaSetOf("b2", 2)], pods: [pod] };
    return readRollout(view).findings.map(({ weight, cause }) => [weight, cause.reason])[0];
  };
  assert.deepEqual(foundOf("2026-01-01T00:09:55Z"), ["grace", "Exited"]);
  assert.deepEqual(foundOf("2026-01-01T00:07:00Z"), ["deadline", "Exited"]);
  const overdue = deploymentOf("second", { generation: 2, observedGeneration: 2 });
  assert.deepEqual(foundOf("2026-01-01T00:07:00Z", overdue), ["now", "Exited"]);
  assert.deepEqual(foundOf("2026-01-01T00:09:55Z", inTime, true), ["grace", "Exited"]);
  assert.equal(foundOf("2026-01-01T00:07:00Z", inTime, true), undefined, "it serves again, so the exits are history");
});

test("a pod that is slow to start says what it waits for, which fails nothing before the deadline", () => {
  const foundOf = (state: object, parts: { startTime: string; isOverdue?: boolean }) => {
    const { startTime, isOverdue = false } = parts;
    const pod = podOf("second", "b2");
    pod.status = {
      startTime,
      containerStatuses: [{ name: "api-server", image: "agent:1", restartCount: 0, ready: false, state }],
    };
    const deployment = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue });
    const view = { ...seenByNobody, deployments: [deployment], replicaSets: [replicaSetOf("b2", 2)], pods: [pod] };
    return readRollout(view).findings.map(({ weight, cause }) => [weight, cause.message]);
  };
  const startTime = "2026-01-01T00:09:30Z";
  const running = { running: { startedAt: startTime } };
  const probe = "The container 'api-server' runs, but its health check does not pass yet.";
  assert.deepEqual(foundOf(running, { startTime }), [["wait", probe]]);
  assert.deepEqual(foundOf({ waiting: { reason: "ContainerCreating" } }, { startTime }), [
    ["wait", "The node is preparing the container 'api-server': it pulls the image agent:1 or attaches disks."],
  ]);
  assert.deepEqual(foundOf({ running: { startedAt: "2026-01-01T00:09:55Z" } }, { startTime }), []);
  assert.deepEqual(foundOf(running, { startTime, isOverdue: true }), [
    ["now", `The pods did not become ready in time. ${probe}`],
  ]);
});

test("the kubelet's back-off tells how often a container ended in a row, whatever happened long ago", () => {
  const streakOf = (state: object, restartCount: number) => {
    const pod = podOf("second", "b2");
    const lastState = { terminated: { exitCode: 1 } };
    const ended = restartCount > 0 ? { lastState } : {};
    pod.status = { containerStatuses: [{ name: "api-server", image: "agent:1", restartCount, state, ...ended }] };
    return crashStreakOf([pod], seenByNobody.nowMs);
  };
  const backOff = (text: string) => ({
    waiting: { reason: "CrashLoopBackOff", message: `back-off ${text} restarting failed container` },
  });
  assert.equal(streakOf(backOff("10s"), 40), 2);
  assert.equal(streakOf(backOff("20s"), 2), 3);
  assert.equal(streakOf(backOff("2m40s"), 40), 6);
  assert.equal(streakOf({ running: { startedAt: "2026-01-01T00:09:55Z" } }, 3), null, "it has just started again");
  assert.equal(streakOf({ running: { startedAt: "2026-01-01T00:07:00Z" } }, 3), null, "it may still crash again");
  assert.equal(streakOf({ running: { startedAt: "2025-12-31T23:59:00Z" } }, 3), 0);
  assert.equal(streakOf({ running: { startedAt: "2026-01-01T00:09:55Z" } }, 0), 0);
});

test("the newest exit of a container or an eviction is known by its cause, but not the end of a deleted pod", () => {
  const podWith = (name: string, status: PodView["status"], metadata: object = {}): PodView => {
    const pod = podOf("second", name);
    return { ...pod, metadata: { ...pod.metadata, name, ...metadata }, status };
  };
  const containerStatus = (terminated: object, restartCount: number) => ({
    containerStatuses: [
      {
        ...{ name: "api-server", image: "agent:1", restartCount },
        ...{ state: { running: { startedAt: "2026-01-01T00:09:00Z" } }, lastState: { terminated } },
      },
    ],
  });
  const exited = podWith("a", containerStatus({ exitCode: 3, finishedAt: "2026-01-01T00:01:00Z" }, 1) as never);
  const killed = podWith(
    "b",
    containerStatus({ exitCode: 137, reason: "OOMKilled", finishedAt: "2026-01-01T00:02:00Z" }, 4) as never,
  );
  const deleted = podWith("c", containerStatus({ exitCode: 143, finishedAt: "2026-01-01T00:03:00Z" }, 1) as never, {
    deletionTimestamp: "2026-01-01T00:03:00Z",
  });
  const evicted = podWith("d", {
    ...{ phase: "Failed", reason: "Evicted", message: "The node was low on resource: memory." },
    startTime: "2026-01-01T00:04:00Z",
  });
  const found = (...pods: PodView[]) => lastExitOf(pods, "second");
  assert.deepEqual([found(exited)?.id, found(exited)?.cause.exit_code], ["a/api-server/1", 3]);
  const kill = found(exited, killed, deleted);
  assert.deepEqual([kill?.id, kill?.cause.reason, kill?.restarts], ["b/api-server/4", "OutOfMemory", 4]);
  assert.match(found(evicted)?.cause.message ?? "", /low on resource: memory/);
  assert.equal(lastExitOf([killed], "first"), undefined);
});

test("a rollout fails soon for a pod over its disk limit, but only at its deadline for a node without room", () => {
  const inTime = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false });
  const foundOf = (message: string) => {
    const pods: PodView[] = [{ ...podOf("second", "b2"), status: { phase: "Failed", reason: "Evicted", message } }];
    const view = { ...seenByNobody, deployments: [inTime], replicaSets: [replicaSetOf("b2", 2)], pods };
    return readRollout(view).findings.map(({ weight, cause }) => [weight, cause.reason]);
  };
  const exceeds = "Pod ephemeral local storage usage exceeds the total limit of containers 64Mi. ";
  const container = 'Container api-server exceeded its local ephemeral storage limit "64Mi". ';
  const volume = 'Usage of EmptyDir volume "tmp" exceeds the limit "64Mi". ';
  for (const message of [exceeds, container, volume]) assert.deepEqual(foundOf(message), [["grace", "OutOfDisk"]]);
  const low = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. ";
  assert.deepEqual(foundOf(low), [["deadline", "Evicted"]]);
});

test("counts evictions soon after each start as crashes in a row, and reports one exit per eviction", () => {
  const startTime = "2026-01-01T00:05:00Z";
  const terminated = { exitCode: 137, finishedAt: "2026-01-01T00:06:00Z" };
  const containerStatuses = [{ name: "api-server", image: "agent:1", restartCount: 0, state: { terminated } }];
  const message = "Pod ephemeral local storage usage exceeds the total limit of containers 64Mi. ";
  const evicted: PodView = {
    ...podOf("second", "a"),
    status: { phase: "Failed", reason: "Evicted", message, startTime, containerStatuses },
  };
  const serving: PodView = { ...podOf("second", "b"), status: { phase: "Running", startTime } };
  const { nowMs } = seenByNobody;
  assert.equal(crashStreakOf([evicted, evicted, evicted, serving], nowMs), 3);
  assert.equal(crashStreakOf([evicted, evicted, evicted, serving, serving], nowMs), 1, "each of two replicas");
  assert.equal(crashStreakOf([evicted, serving], nowMs + 600_000), null, "long ago");
  const exit = lastExitOf([evicted, serving], "second");
  assert.deepEqual(
    [exit?.id, exit?.at, exit?.cause.reason],
    [`${evicted.metadata.name}/evicted`, terminated.finishedAt, "OutOfDisk"],
  );
});

test("a rollout that was paused by hand is reported with the command that resumes it", () => {
  const paused = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false });
  paused.spec.paused = true;
  const { findings } = readRollout({ ...seenByNobody, deployments: [paused], pods: [] });
  assert.deepEqual(
    findings.map(({ weight, cause }) => [weight, cause.message]),
    [["deadline", "The rollout is paused in the cluster. To resume it: kubectl rollout resume deployment/agent"]],
  );
});

test("a server that was scaled to zero by hand is not ready, and the report contains the command that resumes it", () => {
  const stopped = deploymentOf("second", { generation: 2, observedGeneration: 2, isOverdue: false });
  stopped.spec.replicas = 0;
  stopped.status = { observedGeneration: 2, replicas: 0, updatedReplicas: 0, availableReplicas: 0 };
  const { isReady, findings } = readRollout({ ...seenByNobody, deployments: [stopped], pods: [] });
  assert.equal(isReady, false);
  assert.match(findings[0]?.cause.message ?? "", /scaled to zero in the cluster.*kubectl scale deployment\/agent/);
  stopped.metadata.labels = { [componentLabel]: "queue" };
  assert.deepEqual(readRollout({ ...seenByNobody, deployments: [stopped], pods: [] }).findings, []);
});

function deploymentOf(
  revisionId: string,
  state: { generation: number; observedGeneration: number; isOverdue?: boolean },
): DeploymentView {
  const { generation, observedGeneration, isOverdue = true } = state;
  const reason = isOverdue ? "ProgressDeadlineExceeded" : "NewReplicaSetCreated";
  const progressing = { type: "Progressing", status: isOverdue ? "False" : "True", reason };
  return {
    metadata: { name: "agent", generation, labels: { [componentLabel]: "server" }, creationTimestamp: "" },
    spec: { replicas: 1, template: { metadata: { annotations: { [revisionAnnotation]: revisionId } } } },
    status: { observedGeneration, replicas: 1, updatedReplicas: 1, conditions: [progressing] },
  };
}

function replicaSetOf(hash: string, number: number): ClusterView["replicaSets"][number] {
  const annotations = { "deployment.kubernetes.io/revision": String(number) };
  const labels = { "pod-template-hash": hash };
  return { metadata: { name: `agent-${hash}`, annotations, labels, creationTimestamp: "" } };
}

function podOf(revisionId: string, hash: string): PodView {
  const waiting = { reason: "CreateContainerConfigError", message: 'secret "nowhere" not found' };
  return {
    metadata: {
      name: `agent-${hash}-x`,
      labels: { "pod-template-hash": hash, [componentLabel]: "server" },
      annotations: { [revisionAnnotation]: revisionId },
      creationTimestamp: "",
    },
    spec: { containers: [{ name: "api-server" }] },
    status: {
      phase: "Pending",
      containerStatuses: [{ name: "api-server", image: "agent:1", restartCount: 0, state: { waiting } }],
    },
  };
}
