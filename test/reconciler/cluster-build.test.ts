import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import type { BuildRequest, BuildResult } from "../../src/builds/build.ts";
import type { BuildWorkers } from "../../src/reconciler/builds/build-workers.ts";
import { withClusterBuilds } from "../../src/reconciler/builds/cluster-build.ts";
import type { BuildOrders } from "../../src/reconciler/store.ts";

test("a build that fails while its context is prepared leaves no part of the context on the disk", async (context) => {
  const { build, directory } = await startBuild(context, { ok: false, reason: "Cancelled", message: "" });
  await build.result;
  assert.deepEqual(await readdir(directory), []);
});

test("the cancellation of a build does not wait for a database that is away", async (context) => {
  const { build, placed } = await startBuild(context, "prepared");
  await placed;
  await build.cancel();
});

/** Starts a build whose worker has ended with this result, on a database that stores its order and then does not answer. */
async function startBuild(context: TestContext, ended: BuildResult | "prepared") {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-contexts-"));
  context.after(() => rm(directory, { recursive: true, force: true }));
  const workDir = path.join(directory, "build.1");
  await writeFile(`${workDir}.tar`, "part of a source");
  const artifact = {} as Extract<BuildResult, { ok: true }>["artifact"];
  const prepared = { path: `${workDir}.tar`, dockerfile: "Dockerfile" };
  const made: BuildResult =
    ended === "prepared" ? { ok: true, artifact, cached: false, steps: [], context: prepared } : ended;
  const worker = { pid: 1, startedAtTicks: "1", result: Promise.resolve(made), cancel: async () => {} };
  const { promise: placed, resolve: place } = Promise.withResolvers<void>();
  const away = () => new Promise<never>(() => {});
  const orders: BuildOrders = { now: () => new Date(), place: async () => place(), readEnd: away, drop: away };
  const workers = withClusterBuilds({ start: () => worker } as unknown as BuildWorkers, {
    orders,
    contexts: null,
    dataDir: directory,
  });
  const target = { kind: "cluster", listenerId: "one", registry: "registry.example.com/agents" };
  const request = { buildId: "one", key: "key", target, workDir, timeoutMs: 60_000, diskBytesMax: 1 };
  return { build: workers.start(request as unknown as BuildRequest, () => {}), directory, placed };
}
