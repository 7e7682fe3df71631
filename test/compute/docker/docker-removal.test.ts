import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { type EngineInfo, limitsOf, recordOf } from "../../../src/compute/docker/replicas/container.ts";
import { Replica, removeContainer } from "../../../src/compute/docker/replicas/replica.ts";
import { ReplicaJournal } from "../../../src/compute/docker/replicas/replica-journal.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { eventually } from "../../support/eventually.ts";
import { anySpec } from "../conformance.ts";
import { startFakeEngine } from "./fake-engine.ts";

test("a container is removed even if another client's removal of it has failed", {
  timeout: 20_000,
}, async (context) => {
  const asked = await startEngine(context, { removedBy: 3 });
  await removeContainer(asked.engine, "agent");
  assert.equal(asked.removals, 3);
});

test("waiting for a container that cannot be removed ends at the time limit, and the error names it", {
  timeout: 20_000,
}, async (context) => {
  const { engine } = await startEngine(context, { removedBy: Number.POSITIVE_INFINITY });
  await assert.rejects(removeContainer(engine, "agent", 300), /the engine has not removed the container agent/);
});

test("servers that stop slowly do not delay other calls to the engine", {
  timeout: 20_000,
}, async (context) => {
  const ending: ServerResponse[] = [];
  const engine = await startFakeEngine(context, (request, response) => {
    if (request.method === "POST") ending.push(response);
    else if (request.url?.endsWith("/containers/json")) response.end("[]");
    else response.writeHead(404).end("{}");
  });
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-journal-"));
  context.after(() => rm(directory, { recursive: true }));
  const journal = new ReplicaJournal(directory);
  const shared = {
    engine,
    journal,
    logger: createLogger("error"),
    life: new AbortController().signal,
    notifyChange: () => {},
  };
  const limits = limitsOf({ cpuLimitCores: 1 }, {} as EngineInfo);
  const replicas = Array.from({ length: 40 }, () => {
    const spec = anySpec({ kind: "image", digest: "a", uri: "a", health_path: "/ok", rollout: "rolling" });
    return Replica.begin(shared, recordOf(spec, limits), spec.replicaId);
  });
  const stopped = Promise.all(replicas.map((replica) => replica.stop({ graceMs: 60_000 })));
  stopped.catch(() => {});
  const asked = await engine.call("GET", "/containers/json", { timeoutMs: 5_000 });
  assert.deepEqual(asked, []);
  await eventually(
    async () => ending.length,
    (count) => count === replicas.length,
  );
  for (const response of ending) response.writeHead(204).end();
  await stopped;
});

/** An engine with one container whose removal is always in progress, until the `removedBy`th request removes it. */
async function startEngine(context: TestContext, { removedBy }: { removedBy: number }) {
  const asked = { removals: 0 };
  const engine = await startFakeEngine(context, (request, response) => {
    if (request.method === "DELETE") asked.removals += 1;
    const isThere = asked.removals < removedBy;
    if (!isThere) response.writeHead(404).end("{}");
    else if (request.method === "DELETE") response.writeHead(409).end('{"message":"removal is already in progress"}');
    else response.end("{}");
  });
  return Object.assign(asked, { engine });
}
