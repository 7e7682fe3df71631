import assert from "node:assert/strict";
import { after, test } from "node:test";
import { freePort } from "../support/free-port.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import type { TcpProxy } from "../support/tcp-proxy.ts";
import { sizeOf, surviveKills } from "./kill-loop.ts";
import { cutNetwork, newJournal, openNetwork, type Replica, startReplica } from "./replicas.ts";

const size = sizeOf(process.env);
const port = await freePort();
const server = await startPostgresServer({ port });
after(() => server?.stop());

test(`${size.kills} kills under ${size.runsAtOnce} concurrent runs lose no run, run none twice at once, and cut no stream for good`, async (context) => {
  const journal = newJournal();
  // No run crashes its replica here, so the engine must give up no run, however often a busy machine loses it.
  const engine = { schema: "kills", leaseMs: 6_000, lossesMax: 100, maxConnections: 4 };
  const network = await openNetwork(server, port, size.kills > 2);
  const replicas: Replica[] = [];
  const start = async () => {
    const { connectionString, proxy } = await network.connect();
    const replica = await startReplica("postgres", { connectionString, engine, journal });
    replicas.push(replica);
    if (proxy !== undefined) proxies.set(replica, proxy);
    return replica;
  };
  const proxies = new Map<Replica, TcpProxy>();
  /** Ends the clients when the test has failed. */
  const ended = new AbortController();
  context.after(async () => {
    ended.abort();
    for (const { process } of replicas) process.kill("SIGKILL");
    await network.close();
  });
  const counts = await surviveKills(
    {
      start,
      journal,
      replicas: 3,
      firstEvent: 0,
      faults: ["kill", "kill", "end", "cut", "kill", "database", "kill", "end", "kill", "kill"],
      perform: async (fault, victim) => {
        if (fault === "database") await server?.crash();
        else await cutNetwork(proxies.get(victim) as TcpProxy, engine.leaseMs + 2_000);
      },
    },
    size,
    ended.signal,
  );
  assert.ok(counts["n_recovered"] > 0, "the kills hit running runs");
});
