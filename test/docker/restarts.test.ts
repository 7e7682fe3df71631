import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { buildAgentImage } from "./base-image.ts";
import { databaseImagesSkipped, makeDatabaseImages } from "./database-images.ts";
import { agentImage, containerOf, deploy, environmentOf, gone, query, startServer } from "./database-world.ts";
import { ask, withQuietDockerd } from "./docker-world.ts";
import { missingForDockerd } from "./dockerd.ts";
import { prober } from "./prober.ts";

describe("docker: the engine restarts", { skip: missingForDockerd() ?? databaseImagesSkipped ?? false }, () => {
  test("after a restart of the engine replicas are reported as exited at once and replaced, and databases return with their data", async () => {
    await withQuietDockerd({}, async (dockerd, world) => {
      await Promise.all([makeDatabaseImages(world.engine), buildAgentImage(world.engine, agentImage, prober)]);
      await using pierhead = await startServer(world.engine);
      const id = await deploy(pierhead.client, "kept");
      const { DATABASE_URI: uri } = await environmentOf(pierhead.client, id);
      await query(world.engine, uri, "create table kept (id int); insert into kept values (7)");
      await pierhead.server.close();

      const wanted = await world.agent("healthy");
      await world.start(wanted);
      let notifications = 0;
      world.compute.onChange(() => notifications++);
      await dockerd.restart();
      await eventually(
        async () => notifications,
        (count) => count > 0,
      );
      assert.equal((await world.exits(wanted)).reason, "Exited");
      await world.remove(wanted);
      assert.equal(await ask(await world.start(await world.agent("healthy")), "/ok"), '{"ok":true}');

      await pierhead.restart();
      const read = () => query(world.engine, uri, "select id from kept").catch(String);
      await eventually(read, (rows) => JSON.stringify(rows) === '[{"id":7}]', { timeoutMs: 240_000 });
      const given = () => environmentOf(pierhead.client, id).catch(() => ({}));
      await eventually(given, (env) => env.DATABASE_URI === uri, { timeoutMs: 240_000 });
      await pierhead.client.deleteDeployment({ deployment_id: id });
      await gone(pierhead.client, id);
      assert.equal(await containerOf(world.engine, uri), undefined);
    });
  });

  test("with live-restore replicas keep running, also while neither the engine nor Pierhead runs", async () => {
    await withQuietDockerd({ flags: ["--live-restore"] }, async (dockerd, world) => {
      const wanted = await world.agent("healthy");
      const before = await world.start(wanted);
      const { pid } = JSON.parse((await ask(before, "/env")) ?? "");
      await world.reopen(() => dockerd.restart());
      const after = await world.reaches(wanted, "ready");
      assert.deepEqual(after, before);
      assert.equal(JSON.parse((await ask(after, "/env")) ?? "").pid, pid);
    });
  });
});
