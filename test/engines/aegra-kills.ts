import { test } from "node:test";
import { startRedisServer } from "../provision/redis-server.ts";
import { freePort } from "../support/free-port.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import type { TcpProxy } from "../support/tcp-proxy.ts";
import { startAegraReplica } from "./aegra-replicas.ts";
import { sizeOf, surviveKills } from "./kill-loop.ts";
import { cutNetwork, newJournal, openNetwork, type Replica } from "./replicas.ts";

/**
 * Adds the test with many kills, which runs only with `PIERHEAD_ENGINE_KILLS`.
 * @param pidOf process id of a replica that Pierhead runs
 */
export function testKills(pidOf: () => Promise<number>): void {
  if (process.env["PIERHEAD_ENGINE_KILLS"] === undefined) return;
  const size = sizeOf(process.env);
  test(`${size.kills} kills under ${size.runsAtOnce} concurrent runs lose no run of Aegra and run none twice at once`, async (context) => {
    const port = await freePort();
    const postgres = await startPostgresServer({ port });
    const redis = await startRedisServer();
    const network = await openNetwork(postgres, port, true);
    const ended = new AbortController();
    const proxies = new Map<Replica, TcpProxy | undefined>();
    context.after(async () => {
      ended.abort();
      for (const { process } of proxies.keys()) process.kill("SIGKILL");
      await network.close();
      await redis.stop();
      await postgres?.stop();
    });
    const journal = newJournal();
    const pid = await pidOf();
    const start = async () => {
      const { connectionString: databaseUrl, proxy } = await network.connect();
      // No run crashes its replica here, so the engine must give up no run, however often a busy machine loses it.
      const engine = { databaseUrl, redisUrl: redis.url, schema: "kills", lossesMax: 100 };
      const replica = await startAegraReplica({ pid, journal, ...engine });
      proxies.set(replica, proxy);
      return replica;
    };
    await surviveKills(
      {
        start,
        journal,
        replicas: 3,
        faults: ["kill", "end", "kill", "cut", "kill", "redis", "kill", "database", "kill", "end"],
        perform: async (fault, victim) => {
          if (fault === "database") await postgres?.crash();
          else if (fault === "redis") await redis.crash();
          // Longer than a lease of fifteen seconds.
          else await cutNetwork(proxies.get(victim) as TcpProxy, 17_000);
        },
      },
      size,
      ended.signal,
    );
  });
}
