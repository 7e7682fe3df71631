import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { sharedPostgres } from "../../src/provision/shared-postgres.ts";
import { sharedRedis } from "../../src/provision/shared-redis.ts";

const servers = {
  PostgreSQL: (port: number) =>
    sharedPostgres({ adminUrl: `postgres://a:b@127.0.0.1:${port}/postgres`, address: undefined }),
  Redis: (port: number) => sharedRedis({ adminUrl: `redis://a:b@127.0.0.1:${port}`, address: undefined }),
};

for (const [kind, open] of Object.entries(servers)) {
  test(`aborting a task on a ${kind} that does not answer ends it at once, with its reason`, {
    timeout: 5_000,
  }, async () => {
    const silent = createServer((socket) => void socket.resume()).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const stop = new AbortController();
    const arrived = once(silent, "connection") as Promise<[Socket]>;
    const removed = open((silent.address() as AddressInfo).port).remove("ph_1", stop.signal);
    const [socket] = await arrived;
    stop.abort(new Error("the server stops"));
    await assert.rejects(removed, /^Error: the server stops$/);
    socket.destroy();
    silent.close();
  });
}
