import assert from "node:assert/strict";
import path from "node:path";
import { sql } from "kysely";
import { workDirOf } from "../../src/builds/start-build.ts";
import { BuildRunner } from "../../src/reconciler/build-runner.ts";
import { interruptRevision, moveRevision } from "../../src/store/revisions.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { filesSource, processesWith, scratch } from "../builds/fixtures.ts";
import { eachDatabase } from "../database.ts";
import { eventually } from "../eventually.ts";
import { makeDeployment, makeWorld } from "../store/fixtures.ts";

eachDatabase(
  "a build nobody wants any more ends, although each pass over its deployment runs on another server",
  async (db) => {
    await using place = await scratch();
    const { tenantId, ...world } = await makeWorld(db);
    const { id: deploymentId, revisionId: id } = await makeDeployment(db, { tenantId, ...world });
    const at = { id, deploymentId };
    await moveRevision(db, at, { from: "CREATING", to: "QUEUED", because: "test", deadlineAt: null });
    await moveRevision(db, at, { from: "QUEUED", to: "AWAITING_BUILD", because: "test", deadlineAt: null });
    const mark = `mark-${id}`;
    const request = {
      buildId: id,
      source: await filesSource(path.join(place.dir, "in"), {
        "pierhead.json": JSON.stringify({ build: ["node", "hang.js", mark], start: ["node"] }),
        "hang.js": "setInterval(() => {}, 1000)",
      }),
      target: { kind: "directory" as const },
      ...{ configPath: null, installCommand: null, buildCommand: null },
      ...{ artifactsDir: path.join(place.dir, "artifacts"), key: id, workDir: workDirOf(place.dir, id) },
      ...{ cacheDir: path.join(place.dir, "cache"), timeoutMs: 120_000, diskBytesMax: 1e8 },
    };
    const deps = { db, logger: createLogger("silent"), ended: createMetrics().builds };
    const [own, other] = ["own", "other"].map(
      (owner) => new BuildRunner(deps, { owner, concurrencyMax: 1, leaseMs: 3_000 }),
    ) as [BuildRunner, BuildRunner];
    const read = async () => {
      const { rows } = await sql<{ status: string; owner: string; is_due: boolean }>`
        select b.status, b.owner, q.run_at is not null as is_due
          from builds b join reconcile_queue q on q.deployment_id = b.deployment_id where b.revision_id = ${id}`.execute(
        db.kysely,
      );
      return rows[0];
    };
    try {
      assert.ok(await own.begin({ ...at, tenantId }, request, new Date(Date.now() + 120_000)));
      await eventually(
        () => processesWith(mark),
        (pids) => pids.length > 0,
        { what: "the build" },
      );
      await interruptRevision(db, { ...at, tenantId, actor: "test" });
      await sql`update reconcile_queue set run_at = null`.execute(db.kysely);
      assert.equal(await other.cancel(id), false, "its owner is alive");
      await eventually(read, (build) => build?.status === "cancelled", { what: "its end", timeoutMs: 10_000 });
      assert.deepEqual(await processesWith(mark), []);
      assert.deepEqual(await read(), { status: "cancelled", owner: "own", is_due: true });
    } finally {
      await own.close();
      await other.close();
    }
  },
  { kinds: ["embedded"] },
);
