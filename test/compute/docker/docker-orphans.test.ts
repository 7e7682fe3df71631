import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { openDockerCompute } from "../../../src/compute/docker/docker-compute.ts";
import { agentPort, labels, labelsOf, recordOf } from "../../../src/compute/docker/replicas/container.ts";
import { type JournalEntry, ReplicaJournal } from "../../../src/compute/docker/replicas/replica-journal.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { eventually } from "../../support/eventually.ts";
import { soon } from "../compute-world.ts";
import { anySpec } from "../conformance.ts";
import { startFakeEngine } from "./fake-engine.ts";

const installationId = randomUUID();
const spec = anySpec({ kind: "image", digest: "agent:1", uri: "agent:1", health_path: "/ok", rollout: "rolling" });
const stray = {
  Id: "stray",
  Names: [`/pierhead-${installationId.slice(0, 8)}-${spec.replicaId}`],
  State: "created",
  Labels: labelsOf(recordOf(spec, { memory: "", cpu: "" }), installationId),
  Ports: [],
};

test("an orphaned container that cannot be removed delays neither observing nor a start of the server", {
  timeout: 20_000,
}, async (context) => {
  const engine = { containers: [] as object[], removals: 0 };
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    if (request.method !== "DELETE") return answerOf(engine, request, response);
    engine.removals += 1;
    return response.writeHead(409).end('{"message":"removal is already in progress"}');
  };
  const compute = await openOn(context, answer);
  engine.containers = [stray];
  assert.deepEqual(await compute.observe(AbortSignal.timeout(5_000)), []);
  assert.deepEqual(await compute.observe(AbortSignal.timeout(5_000)), []);
  await eventually(
    async () => engine.removals,
    (count) => count > 0,
  );
  await openOn(context, answer);
});

test("labels in a Dockerfile do not make its build containers replicas, and do not hide other replicas", {
  timeout: 20_000,
}, async (context) => {
  const removals: string[] = [];
  const forged = { ...stray, Id: "building", Names: ["/epic_edison"], State: "running" };
  const containers = [{ ...forged, Labels: { ...forged.Labels, [labels.facts]: "{" } }];
  const compute = await openOn(context, (request, response) => {
    if (request.method === "DELETE") removals.push(request.url ?? "");
    return answerOf({ containers }, request, response);
  });
  assert.deepEqual(await compute.observe(soon()), []);
  assert.deepEqual(removals, []);
});

test("leftovers of a start during which the engine became unreachable are removed later, with their network", {
  timeout: 20_000,
}, async (context) => {
  const engine = { containers: [] as object[], isAway: false, deleted: [] as string[] };
  const compute = await openOn(context, (request, response) => {
    if (request.url?.endsWith("/start")) engine.isAway = true;
    if (engine.isAway) return response.socket?.destroy();
    if (request.method === "DELETE") {
      engine.deleted.push((request.url ?? "").replace(/^\/v1\.\d+|\?.*/g, ""));
      engine.containers = [];
    } else if (request.url?.includes("/containers/create")) engine.containers = [stray];
    return answerOf(engine, request, response);
  });
  await assert.rejects(compute.ensure(spec, soon()), /cannot be reached/);
  engine.isAway = false;
  await eventually(
    async () => {
      await compute.observe(soon());
      return engine.deleted;
    },
    (deleted) => deleted.length === 2,
  );
  const network = `/networks/pierhead-${installationId.slice(0, 8)}-${spec.tenantId}`;
  assert.deepEqual(engine.deleted, ["/containers/stray", network]);
});

test("replicas that a reboot has killed are inspected in parallel", {
  timeout: 120_000,
}, async (context) => {
  const containers = Array.from({ length: 10 }, (_, index) => {
    const record = recordOf({ ...spec, replicaId: `killed-${index}` }, { memory: "", cpu: "" });
    const Names = [`/pierhead-${installationId.slice(0, 8)}-${record.replicaId}`];
    return { Id: record.replicaId, Names, State: "exited", Labels: labelsOf(record, installationId), Ports: [] };
  });
  // None is answered before all have been requested.
  const asked = new Set<string>();
  const all = Promise.withResolvers<void>();
  const compute = await openOn(context, (request, response) => {
    const [, id] = /\/containers\/(killed-\d+)\/json/.exec(request.url ?? "") ?? [];
    if (id === undefined) return answerOf({ containers }, request, response);
    if (asked.add(id).size === containers.length) all.resolve();
    const State = { Running: false, ExitCode: 137, OOMKilled: false };
    return void all.promise.then(() => response.end(JSON.stringify({ State })));
  });
  const states = await compute.observe(soon());
  assert.deepEqual(new Set(states.map(({ phase }) => phase)), new Set(["exited"]));
  assert.equal(states.length, containers.length);
});

test("a container that another client restarted has exited, and gets no traffic at its previous port", {
  timeout: 20_000,
}, async (context) => {
  const record = recordOf(spec, { memory: "", cpu: "" });
  let port = 40_001;
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const Ports = [{ PrivatePort: agentPort, PublicPort: port }];
    const listed = { ...stray, Id: "agent", State: "running", Labels: labelsOf(record, installationId), Ports };
    if (!request.url?.includes("/containers/agent/json")) return answerOf({ containers: [listed] }, request, response);
    const bound = { [`${agentPort}/tcp`]: [{ HostPort: String(port) }] };
    const State = { Running: true, ExitCode: 0, OOMKilled: false };
    return response.end(JSON.stringify({ State, NetworkSettings: { Ports: bound } }));
  };
  const compute = await openOn(context, answer, { ready: { port, serverVersion: null } });
  assert.equal((await compute.observe(soon()))[0]?.address?.port, 40_001);
  port = 40_002;
  const [state] = await eventually(
    () => compute.observe(soon()),
    ([found]) => found?.phase === "exited",
  );
  assert.equal(state?.exit?.reason, "Lost");
  assert.match(state?.exit?.message ?? "", /stopped and started the container/);
  assert.equal(state?.address, undefined);
});

test("a driver closes while its engine hangs during a start, and sends no more requests", {
  timeout: 60_000,
}, async (context) => {
  const engine = { containers: [] as object[], isStill: false, asked: 0 };
  const compute = await openOn(context, (request, response) => {
    if (request.url?.endsWith("/start")) engine.isStill = true;
    if (!engine.isStill) return answerOf(engine, request, response);
    engine.asked += 1;
  });
  const launching = compute.ensure(spec, new AbortController().signal).catch((error: unknown) => error);
  await eventually(
    async () => engine.asked,
    (count) => count > 0,
  );
  await compute.close();
  assert.match(String(await launching), /the client of the container engine at .* is closed/);
  assert.equal(engine.asked, 1);
});

test("a temporary shortage of the machine fails one start, a fault of the image fails all of them", {
  timeout: 20_000,
}, async (context) => {
  const runtime =
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed";
  let refusal = "";
  const compute = await openOn(context, (request, response) => {
    if (!request.url?.includes("/start")) return answerOf({ containers: [] }, request, response);
    return response.writeHead(500).end(JSON.stringify({ message: refusal }));
  });
  const noRoom = "The machine of the container engine has no room: ";
  for (const [why, said] of [
    [
      `${runtime}: unable to start container process: error during container init: error mounting "resolv.conf" to rootfs: no space left on device: unknown`,
      noRoom,
    ],
    [
      `${runtime}: unable to start container process: can't copy bootstrap data to pipe: cannot allocate memory: unknown`,
      noRoom,
    ],
    [
      "failed to create task for container: failed to start shim: start failed: resource temporarily unavailable: unknown",
      noRoom,
    ],
    ["failed to create task for container: failed to create shim task: context deadline exceeded: unknown", ""],
  ] as const) {
    refusal = why;
    await assert.rejects(compute.ensure(spec, soon()), { message: said + why });
    assert.deepEqual(await compute.observe(soon()), []);
  }
  refusal = `${runtime}: unable to start container process: chdir to cwd ("/agent.mjs") set in config.json failed: not a directory: unknown`;
  await compute.ensure(spec, soon());
  const [state] = await compute.observe(soon());
  assert.deepEqual([state?.exit?.reason, state?.exit?.message], ["StartError", refusal]);
});

test("a container that was asked to stop is adopted as stopping, and its exit is no crash", {
  timeout: 20_000,
}, async (context) => {
  const listed = { ...stray, Id: "agent", State: "running", Ports: [{ PrivatePort: agentPort, PublicPort: 40_001 }] };
  const containers = [listed];
  const asked = Promise.withResolvers<void>();
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    // It takes time to finish its work.
    if (request.url?.includes("/containers/agent/stop")) return asked.resolve();
    return answerOf({ containers }, request, response);
  };
  const { host } = await startFakeEngine(context, answer);
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-docker-"));
  const journal = new ReplicaJournal(dataDir);
  await journal.open();
  await journal.write(spec.replicaId, { ready: { port: 40_001, serverVersion: null } });
  const options = { host, dataDir, installationId, logger: createLogger("silent") };
  const before = await openDockerCompute(options);
  assert.equal((await before.observe(soon()))[0]?.phase, "ready");
  const removal = assert.rejects(before.remove(spec.replicaId, { graceMs: 60_000, signal: soon() }));
  await asked.promise;
  await before.close();
  await removal;
  const next = await openDockerCompute(options);
  assert.equal((await next.observe(soon()))[0]?.phase, "stopping");
  await next.close();
  listed.State = "exited";
  const last = await openDockerCompute(options);
  const [state] = await last.observe(soon());
  assert.deepEqual([state?.phase, state?.exit], ["stopping", undefined]);
  await last.close();
  await rm(dataDir, { recursive: true });
});

/** @param entry journal entry of an earlier driver about the replica */
async function openOn(
  context: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => unknown,
  entry?: JournalEntry,
) {
  const { host } = await startFakeEngine(context, answer);
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-docker-"));
  const journal = new ReplicaJournal(dataDir);
  await journal.open();
  if (entry !== undefined) await journal.write(spec.replicaId, entry);
  const compute = await openDockerCompute({ host, dataDir, installationId, logger: createLogger("silent") });
  context.after(async () => {
    await compute.close();
    await rm(dataDir, { recursive: true });
  });
  return compute;
}

/** The answers of an engine that has only these containers. */
function answerOf({ containers }: { containers: object[] }, { url = "" }: IncomingMessage, response: ServerResponse) {
  if (url.includes("/containers/json")) return response.end(JSON.stringify(containers));
  if (url.includes("/containers/create")) return response.end('{"Id":"stray"}');
  if (url.includes("/containers/stray/json")) return response.writeHead(containers.length > 0 ? 200 : 404).end("{}");
  if (url.includes("/images/")) return response.end('{"Id":"sha256:1"}');
  if (url.endsWith("/info")) return response.end("{}");
  // There are no events.
  return url.includes("/events") ? response.write("\n") : response.end("[]");
}
