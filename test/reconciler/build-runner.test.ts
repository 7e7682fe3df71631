import assert from "node:assert/strict";
import path from "node:path";
import { workDirOf } from "../../src/builds/worker/start-build.ts";
import { BuildRunner } from "../../src/reconciler/builds/build-runner.ts";
import { processWorkers } from "../../src/reconciler/builds/build-workers.ts";
import { createBuildStore } from "../../src/reconciler/postgres-store.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { interruptRevision, moveRevision } from "../../src/store/revisions/revisions.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { filesSource, processesWith, scratch } from "../builds/fixtures.ts";
import { makeDeployment, makeWorld } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

/** Creates a revision that waits for its build, and a build request that runs its only file. */
async function makeBuild(db: Db, directory: string, files: Record<string, string>) {
  const world = await makeWorld(db);
  const { id: deploymentId, revisionId: id } = await makeDeployment(db, world);
  const at = { id, deploymentId, tenantId: world.tenantId };
  await moveRevision(db, at, { from: "CREATING", to: "QUEUED", because: "test", deadlineAt: null });
  await moveRevision(db, at, { from: "QUEUED", to: "AWAITING_BUILD", because: "test", deadlineAt: null });
  const mark = `mark-${id}`;
  const build = ["node", ...Object.keys(files), mark];
  const request = {
    buildId: id,
    deploymentId: "deployment",
    tenantId: world.tenantId,
    source: await filesSource(path.join(directory, "in"), {
      "pierhead.json": JSON.stringify({ build, start: ["node"] }),
      ...files,
    }),
    target: { kind: "directory" as const },
    configPath: null,
    installCommand: null,
    buildCommand: null,
    engine: null,
    defaultEngine: null,
    isDefaultKept: false,
    artifactsDir: path.join(directory, "artifacts"),
    key: id,
    workDir: workDirOf(directory, id),
    cacheDir: path.join(directory, "cache"),
    timeoutMs: 120_000,
    diskBytesMax: 1e8,
  };
  return { at, request, mark };
}

/** A build runner on real processes. */
const depsFor = (db: Db) => ({
  store: createBuildStore(db),
  workers: processWorkers,
  logger: createLogger("silent"),
  ended: createMetrics().builds,
});

eachDatabase(
  "ends a build that is no longer needed when passes over its deployment run on another server",
  async (db) => {
    await using place = await scratch();
    const { at, request, mark } = await makeBuild(db, place.dir, { "hang.js": "setInterval(() => {}, 1000)" });
    const { id } = at;
    const deps = depsFor(db);
    const [own, other] = ["own", "other"].map(
      (owner) => new BuildRunner(deps, { owner, concurrencyMax: 1, leaseMs: 3_000 }),
    ) as [BuildRunner, BuildRunner];
    const read = async () => {
      const { rows } = await db.query<{ status: string; owner: string; is_due: boolean }>(sql`
        select b.status, b.owner, q.run_at is not null as is_due
          from builds b join reconcile_queue q on q.deployment_id = b.deployment_id where b.revision_id = ${id}`);
      return rows[0];
    };
    try {
      assert.ok(await own.begin(at, request, new Date(Date.now() + 120_000)));
      await eventually(
        () => processesWith(mark),
        (pids) => pids.length > 0,
        { what: "the build" },
      );
      await interruptRevision(db, { ...at, actor: "test" });
      await db.query(sql`update reconcile_queue set run_at = null`);
      assert.equal(await other.cancel(id), false, "the owner of the build is alive");
      await eventually(read, (build) => build?.status === "cancelled", {
        what: "the end of the build",
        timeoutMs: 10_000,
      });
      assert.deepEqual(await processesWith(mark), []);
      assert.deepEqual(await read(), { status: "cancelled", owner: "own", is_due: true });
    } finally {
      await own.close();
      await other.close();
    }
  },
  { kinds: ["embedded"] },
);

eachDatabase(
  "continues a build when its database connection ends while its process is recorded",
  async (db) => {
    await using place = await scratch();
    const { at, request } = await makeBuild(db, place.dir, { "build.js": "" });
    await db.query(
      sql.raw(`
      create sequence deaths;
      create function die_once() returns trigger language plpgsql as $$
      begin
        if nextval('deaths') = 1 then perform pg_terminate_backend(pg_backend_pid()), pg_sleep(10); end if;
        return new;
      end $$;
      create trigger dies before update of pid on builds for each row when (new.pid is not null) execute function die_once()`),
    );
    const deps = depsFor(db);
    const builds = new BuildRunner(deps, { owner: "own", concurrencyMax: 1, leaseMs: 30_000 });
    const read = async () => {
      const { rows } = await db.query<{ status: string; result: unknown; deaths: number }>(sql`
        select status, result, (select last_value from deaths) as deaths from builds where revision_id = ${at.id}`);
      return rows[0];
    };
    try {
      assert.ok(await builds.begin(at, request, new Date(Date.now() + 120_000)));
      const ended = await eventually(read, (build) => build?.status !== "running", { timeoutMs: 60_000 });
      assert.equal(ended?.status, "succeeded", JSON.stringify(ended?.result));
      assert.equal(ended?.deaths, 2);
    } finally {
      await builds.close();
    }
  },
  { kinds: ["postgres"] },
);
