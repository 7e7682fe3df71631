import path from "node:path";
import { ensureTemplate } from "../../src/store/engine/embedded/prepare-directory.ts";
import { startBalancer } from "../storm/balancer.ts";
import { keys, ListenerProcess, Replica, startReplicas } from "../storm/fleet.ts";
import { freePort } from "../support/free-port.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import type { Program } from "./programs.ts";

/** A Pierhead installation whose program is replaced. */
export interface Installation {
  /** URL of its API. */
  url: string;
  /** URL of its gateway. */
  agentsUrl: string;
  dataDirs: string[];
  replicas: Replica[];
  /** Listener that runs the agents when the control plane does not. */
  listener: ListenerProcess | null;
}

/** Long limits, because only the gates of the test may end a wait, and builds that wait must not block others. */
const longLimits = {
  PIERHEAD_DRAIN_TIMEOUT_MS: "600000",
  PIERHEAD_BUILD_CONCURRENCY: "32",
  PIERHEAD_RATE_LIMIT: "0",
};

/** Starts one server on the embedded database, as on a laptop. It runs its own agents. */
export async function startOneServer(stop: AsyncDisposableStack, directory: string, { directory: program }: Program) {
  const cacheDir = path.resolve("node_modules/.cache/pierhead");
  await ensureTemplate(cacheDir);
  const replica = new Replica(path.join(directory, "server"), await freePort(), {
    ...longLimits,
    PIERHEAD_ADMIN_KEY: keys.admin,
    PIERHEAD_COMPUTE: "process",
    PIERHEAD_CACHE_DIR: cacheDir,
    PIERHEAD_DATABASE_TEMPLATE_DIR: cacheDir,
  });
  replica.program = program;
  await replica.start();
  stop.defer(() => replica.server.stop());
  const { url, dataDir } = replica;
  return { url, agentsUrl: url, dataDirs: [dataDir], replicas: [replica], listener: null } satisfies Installation;
}

/** Starts two control planes on one PostgreSQL behind a load balancer, and a listener. @returns null without PostgreSQL. */
export async function startTwoReplicas(
  stop: AsyncDisposableStack,
  directory: string,
  { directory: program }: Program,
): Promise<Installation | null> {
  const postgres = await startPostgresServer();
  if (postgres === undefined) return null;
  stop.defer(() => postgres.stop());
  const wanted = { directory, count: 2, databaseUrl: postgres.url, program, environment: longLimits };
  const replicas = await startReplicas(wanted);
  for (const replica of replicas) stop.defer(() => replica.server.stop());
  const { url } = stop.use(await startBalancer(replicas.map((replica) => replica.url)));
  const listener = new ListenerProcess(path.join(directory, "listener"), await freePort(), url);
  listener.program = program;
  await listener.start();
  stop.defer(() => listener.end("SIGTERM"));
  const dataDirs = [...replicas.map(({ dataDir }) => dataDir), listener.dataDir];
  return { url, agentsUrl: listener.url, dataDirs, replicas, listener };
}
