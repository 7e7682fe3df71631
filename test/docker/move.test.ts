import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Client } from "../../src/client/client.ts";
import { Engine } from "../../src/compute/docker/engine/engine.ts";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import type { TestServer } from "../support/server.ts";
import { buildAgentImage, importNodeImage } from "./base-image.ts";
import { databaseImagesSkipped, makeDatabaseImages } from "./database-images.ts";
import { agentImage, deploy, environmentOf, gone, query, startServer } from "./database-world.ts";
import { type Dockerd, dockerSkipped, engineForTests, startQuietDockerd } from "./dockerd.ts";
import { prober } from "./prober.ts";

describe("docker: moving between machines", { skip: dockerSkipped || databaseImagesSkipped || false }, () => {
  let engines: Engine[] = [];
  let servers: TestServer[] = [];
  let end: () => Promise<void>;
  let dockerd: Dockerd;
  before(async () => {
    const own = await engineForTests();
    end = own.end;
    dockerd = await startQuietDockerd([], "base=10.200.0.0/16,size=24");
    const other = await new Engine(dockerd.host).open();
    engines = [own.engine, other];
    await importNodeImage(other);
    for (const engine of engines) {
      await makeDatabaseImages(engine);
      await buildAgentImage(engine, agentImage, prober);
    }
    servers = await Promise.all(engines.map((engine) => startServer(engine)));
  });
  after(async () => {
    for (const server of servers) await server[Symbol.asyncDispose]();
    engines[1]?.close();
    await dockerd?.stop();
    await end?.();
  });

  test("a database in a container moves to the engine of another server", async () => {
    const [us, eu] = servers as [TestServer, TestServer];
    const [old, next] = engines as [Engine, Engine];
    const id = await deploy(us.client, "support");
    const uriOf = async (client: Client, deploymentId: string) =>
      (await environmentOf(client, deploymentId)).DATABASE_URI as string;
    const oldUri = await uriOf(us.client, id);
    await query(old, oldUri, "create table notes as select generate_series(1, 1000) as id");

    await using at = await createDirectory({});
    const env = {
      ...{ PATH: process.env["PATH"], HOME: at.directory, PIERHEAD_CONFIG_DIR: at.directory },
      ...{ DOCKER_HOST: old.host, PIERHEAD_TARGET_DOCKER_HOST: next.host },
    };
    for (const [name, { url, apiKey }] of Object.entries({ eu, us })) {
      const { code, stderr } = await runCli(["login", url, "--name", name, "--key"], { env, stdin: apiKey });
      assert.equal(code, 0, stderr);
    }
    const move = ["move", "support", "--context", "us", "--to-context", "eu"];
    const unreachable = await runCli([...move, "--yes"], { env: { ...env, PIERHEAD_TARGET_DOCKER_HOST: undefined } });
    assert.equal(unreachable.code, 1);
    assert.match(unreachable.stderr, /has no database container .*set PIERHEAD_TARGET_DOCKER_HOST/s);
    await query(old, oldUri, "insert into notes values (1001)");

    const moved = await runCli([...move, "--yes", "--json"], { env });
    assert.equal(moved.code, 0, moved.stderr);
    const { to, tables } = JSON.parse(moved.stdout);
    assert.deepEqual(tables, [{ name: "public.notes", rows: 1001 }]);
    const count = "select count(*)::int as count from notes";
    const newUri = await uriOf(eu.client, to.deployment_id);
    assert.deepEqual(await query(next, newUri, count), [{ count: 1001 }]);
    await assert.rejects(query(old, oldUri, "insert into notes values (0)"), /read-only/);
    const finished = await runCli([...move, "--finish", "--yes"], { env });
    assert.equal(finished.code, 0, finished.stderr);
    await gone(us.client, id);
    await query(next, newUri, "insert into notes values (0)");
  });
});
