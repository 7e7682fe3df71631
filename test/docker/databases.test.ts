import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { type Client, createClient } from "../../src/client/client.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { runInContainer } from "../../src/compute/docker/engine/exec.ts";
import { runCli } from "../cli/run-cli.ts";
import { mintStrangersKey } from "../clients/tenants.ts";
import { eventually } from "../support/eventually.ts";
import type { TestServer } from "../support/server.ts";
import { buildAgentImage } from "./base-image.ts";
import { databaseImagesSkipped, makeDatabaseImages, postgresImage } from "./database-images.ts";
import {
  agentImage,
  bodyOf,
  containerOf,
  deploy,
  environmentOf,
  gone,
  type Inspected,
  inside,
  query,
  settled,
  startServer,
} from "./database-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";
import { prober } from "./prober.ts";

/** Sends a few bytes to a server and returns the beginning of its answer. */
const exchange = (host: string, port: number, text: string, timeoutMs = 2_000) => `
  const socket = require("node:net").connect({ host: ${JSON.stringify(host)}, port: ${port} });
  return new Promise((resolve, reject) => {
    socket.once("error", reject);
    socket.setTimeout(${timeoutMs}, () => reject(Object.assign(new Error(), { code: "ETIMEDOUT" })));
    socket.once("data", (data) => { socket.destroy(); resolve(data.toString()); });
    socket.write(${JSON.stringify(text)}, "latin1");
  });`;
/** Asks PostgreSQL whether it supports TLS: `N` when it does not. */
const sslRequest = "\0\0\0\b\u0004\u00d2\u0016/";

describe("docker: databases in containers", { skip: dockerSkipped || databaseImagesSkipped || false }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  let pierhead: TestServer;
  let stranger: Client;
  /** Ids of three deployments: two in one workspace, one in another. */
  let first = "";
  let second = "";
  let theirs = "";
  before(async () => {
    ({ engine, end } = await engineForTests());
    await Promise.all([makeDatabaseImages(engine), buildAgentImage(engine, agentImage, prober)]);
    pierhead = await startServer(engine);
    const { client, url } = pierhead;
    stranger = createClient({ baseUrl: url, apiKey: await mintStrangersKey(pierhead) });
    [first, second, theirs] = (await Promise.all([
      deploy(client, "first"),
      deploy(client, "second"),
      deploy(stranger, "theirs"),
    ])) as [string, string, string];
  });
  after(async () => {
    await pierhead?.[Symbol.asyncDispose]();
    await end?.();
  });

  test("each deployment gets its own PostgreSQL and Redis within its limits, unreachable for other workspaces", async () => {
    const { client } = pierhead;
    const [env, other] = [await environmentOf(client, first), await environmentOf(stranger, theirs)];
    assert.notEqual(env.DATABASE_URI, other.DATABASE_URI);
    assert.equal(env.POSTGRES_URI, env.DATABASE_URI);

    const [{ shown }] = (await query(
      engine,
      env.DATABASE_URI,
      "select current_setting('max_connections') as shown",
    )) as [{ shown: string }];
    assert.equal(shown, "20");
    const [postgres, redis] = await Promise.all(
      [env.DATABASE_URI, env.REDIS_URI].map(async (uri) => (await containerOf(engine, uri)) as Inspected),
    );
    const limitsOf = ({ HostConfig }: Inspected) =>
      ["Memory", "MemorySwap", "NanoCpus", "PidsLimit"].map((name) => HostConfig[name]);
    assert.deepEqual(limitsOf(postgres as Inspected), [256 << 20, 256 << 20, 500_000_000, 1_024]);
    assert.deepEqual(limitsOf(redis as Inspected), [64 << 20, 64 << 20, 300_000_000, 1_024]);
    assert.deepEqual((postgres as Inspected).HostConfig["CapDrop"], ["ALL"]);
    assert.deepEqual((postgres as Inspected).HostConfig["SecurityOpt"], ["no-new-privileges"]);

    const at = (uri: string) => [new URL(uri).hostname, Number(new URL(uri).port)] as const;
    const auth = (uri: string) => `AUTH ${new URL(uri).password}\r\nPING\r\n`;
    // A reachable server may answer slowly, with half a core on a busy machine.
    const ask = (uri: string, text: string) => exchange(...at(uri), text, 30_000);
    assert.equal(await inside(client, first, ask(env.DATABASE_URI, sslRequest)), "N");
    assert.match(await inside(client, first, ask(env.REDIS_URI, auth(env.REDIS_URI))), /^\+OK/);
    assert.match(await inside(client, first, ask(env.REDIS_URI, "PING\r\n")), /^-NOAUTH/);
    for (const [uri, found] of [
      [env.DATABASE_URI, postgres],
      [env.REDIS_URI, redis],
    ] as const) {
      const [{ IPAddress } = { IPAddress: "" }] = Object.values((found as Inspected).NetworkSettings.Networks);
      const [name, port] = at(uri);
      for (const host of [name, IPAddress]) {
        // Retries, because the engine opens for a moment when it creates a network (isolation.test.ts).
        await eventually(
          async () => (await inside(stranger, theirs, exchange(host, port, sslRequest))).failed,
          (failed) => /^(ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/.test(failed ?? ""),
          { timeoutMs: 60_000 },
        );
      }
    }
    assert.doesNotMatch(
      JSON.stringify(await client.debugDeployment({ deployment_id: first })),
      new RegExp(new URL(env.DATABASE_URI).password),
    );
  });

  test("a database stays the same over revisions, can be backed up and restored into another, and is deleted with its deployment", async () => {
    const { client } = pierhead;
    const env = await environmentOf(client, first);
    await query(
      engine,
      env.DATABASE_URI,
      "create extension pg_trgm; create table kept (id int, of text); create index on kept using gin (of gin_trgm_ops); insert into kept values (7, 'seven')",
    );
    const began = (await containerOf(engine, env.DATABASE_URI))?.State.StartedAt;
    const cli = {
      env: {
        ...process.env,
        PIERHEAD_AGENT_DATABASES: "containers",
        DOCKER_HOST: engine.host,
        PIERHEAD_URL: pierhead.url,
      },
    };
    const as = ["--json", "--data-dir", pierhead.dataDir];
    const file = path.join(pierhead.dataDir, "first.dump");
    const backup = await runCli(["database", "backup", "first", file, ...as], cli);
    assert.equal(backup.code, 0, backup.stderr);
    const restore = await runCli(["database", "restore", "second", file, "--yes", ...as], cli);
    assert.equal(restore.code, 0, restore.stderr);
    const restored = (await environmentOf(client, second)).DATABASE_URI;
    const listed = new PassThrough();
    const listing = { argv: ["ls", "/tmp"], env: {}, output: listed, signal: AbortSignal.timeout(20_000) };
    const [left] = await Promise.all([text(listed), runInContainer(engine, new URL(restored).hostname, listing)]);
    assert.doesNotMatch(left, /pierhead-/, "the copied dump is removed");
    assert.deepEqual(await query(engine, restored, "select id, of from kept"), [{ id: 7, of: "seven" }]);

    const same = await client.redeployRevision({
      deployment_id: first,
      revision_id: (await client.getDeployment({ deployment_id: first })).latest_revision_id as string,
    });
    await settled(client, first, same.latest_revision_id);
    assert.equal(
      (await containerOf(engine, env.DATABASE_URI))?.State.StartedAt,
      began,
      "an unchanged database keeps running",
    );
    const body = {
      source_config: { resource_spec: { ...bodyOf("").source_config.resource_spec, db_max_connections: 30 } },
    };
    const larger = await client.patchDeployment({ deployment_id: first, body });
    await settled(client, first, larger.latest_revision_id);
    assert.equal((await environmentOf(client, first)).DATABASE_URI, env.DATABASE_URI);
    const settings = "select current_setting('max_connections') as shown, (select id from kept) as id";
    assert.deepEqual(await query(engine, env.DATABASE_URI, settings), [{ shown: "30", id: 7 }]);

    const volumes = () => engine.call<{ Volumes: { Name: string }[] | null }>("GET", "/volumes");
    const names = [env.DATABASE_URI, env.REDIS_URI].map((uri) => new URL(uri).hostname);
    const volumesLeft = async () => ((await volumes()).Volumes ?? []).filter(({ Name }) => names.includes(Name)).length;
    assert.equal(await volumesLeft(), 2);
    await client.deleteDeployment({ deployment_id: first });
    await gone(client, first);
    assert.equal(await volumesLeft(), 0);
    for (const uri of [env.DATABASE_URI, env.REDIS_URI]) assert.equal(await containerOf(engine, uri), undefined);
    assert.deepEqual(await query(engine, restored, "select id from kept"), [{ id: 7 }]);
  });

  test("a missing image fails the revision with its name, and the deployment waits for the operator", async () => {
    const registry = createServer(({ url }, response) => {
      response.writeHead(url === "/v2/" ? 200 : 404, { "content-type": "application/json" });
      response.end(url === "/v2/" ? "{}" : '{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}');
    }).listen(0, "127.0.0.1");
    await once(registry, "listening");
    const image = `127.0.0.1:${(registry.address() as AddressInfo).port}/postgres:99`;
    try {
      await using other = await startServer(engine, { PIERHEAD_AGENT_POSTGRES_IMAGE: image });
      const made = await other.client.createDeployment({ body: bodyOf("waits") });
      const failed = await settled(other.client, made.id, made.latest_revision_id, "CREATE_FAILED");
      assert.match(
        failed.status_message ?? "",
        /could not be provisioned: container postgres-.*postgres:99 cannot be pulled/,
      );
      assert.equal((await other.client.getDeployment({ deployment_id: made.id })).status, "AWAITING_DATABASE");
      await other.restart({ PIERHEAD_AGENT_POSTGRES_IMAGE: postgresImage });
      const again = await other.client.redeployRevision({ deployment_id: made.id, revision_id: failed.id });
      await settled(other.client, made.id, again.latest_revision_id);
      await other.client.deleteDeployment({ deployment_id: made.id });
      await gone(other.client, made.id);
    } finally {
      registry.close();
    }
  });
});
