import path from "node:path";
import v8 from "node:v8";
import vm from "node:vm";
import pg from "pg";
import { createApi } from "../src/api/app.ts";
import { Tunnels } from "../src/api/listeners/tunnels.ts";
import { createGateway } from "../src/gateway/gateway.ts";
import { bootstrap } from "../src/server/bootstrap.ts";
import { type Config, readConfig } from "../src/server/config.ts";
import { listen } from "../src/server/listen.ts";
import { startServer } from "../src/server/start.ts";
import { DirectoryUploads } from "../src/server/uploads.ts";
import { type Db, openDatabase } from "../src/store/engine/database.ts";
import { sql } from "../src/store/engine/sql.ts";
import { EventFeed } from "../src/store/events/event-feed.ts";
import { readOrCreateMasterKey } from "../src/store/secrets/master-key.ts";
import { openSealer } from "../src/store/secrets/seal.ts";
import { createLogger, type Logger } from "../src/telemetry/log.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { apiSettings } from "./requests.ts";
import type { Question, Usage } from "./server-messages.ts";
import { readBack, writeEvents, writeManyEvents } from "./write-events.ts";

/**
 * A server in its own process, configured by its environment. Argument: `server` for a whole server, `api`
 * for the API alone, as on a machine whose reconciler runs elsewhere. Sends its URL once it answers. Ends cleanly, with
 * all its replicas, when its parent disconnects.
 */
v8.setFlagsFromString("--expose-gc");
const collectGarbage = vm.runInNewContext("gc") as () => void;
const startAs = { server: startServer, api: startApi };
const usage = { queries: 0 };
countQueries();
const config = readConfig(process.env);
const logger = createLogger(config.logLevel);
const { url, db, close } = await startAs[process.argv[2] as keyof typeof startAs](config, { logger });
process.send?.({ url });
process.on("message", (question: Question) => void answer(question).then((reply) => process.send?.(reply)));
process.on("disconnect", () => void close({ stopReplicas: true }).then(() => process.exit(0)));
// Ctrl-C reaches the whole process group, but the parent decides when to end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {});

async function answer(question: Question): Promise<unknown> {
  if (question.ask === "row") return (await db.query(sql.raw(question.text))).rows[0];
  if (question.ask === "writeEvents") return writeEvents(db, question.tenantId, question);
  if (question.ask === "writeManyEvents") return writeManyEvents(db, question.tenantId, question.count);
  if (question.ask === "readBack") return readBack(db, question.tenantId, question.count);
  if (question.ask === "memory") return memoryInUse();
  const { user, system } = process.cpuUsage();
  return { cpuMs: (user + system) / 1_000, queries: usage.queries } satisfies Usage;
}

/**
 * Returns the resident set in bytes after a garbage collection, so garbage does not count. Collecting takes up to a second of
 * CPU that the bench causes, so ask outside of timed sections.
 */
function memoryInUse(): number {
  collectGarbage();
  return process.memoryUsage.rss();
}

function countQueries(): void {
  const { prototype } = pg.Client;
  const { query } = prototype;
  prototype.query = function counted(this: pg.Client, ...args: never[]) {
    usage.queries += 1;
    return Reflect.apply(query, this, args);
  } as typeof query;
}

interface Started {
  url: string;
  db: Db;
  close(options?: { stopReplicas: boolean }): Promise<void>;
}

/** Starts everything that a request passes in a whole server: sockets, gateway, routes, checks, store. */
async function startApi(config: Config, { logger }: { logger: Logger }): Promise<Started> {
  const db = await openDatabase({ databaseUrl: config.databaseUrl, dataDir: config.dataDir, logger });
  const { listenerId } = await bootstrap(db, config);
  const sealer = await openSealer(db, await readOrCreateMasterKey(path.join(config.dataDir, "master.key")));
  const metrics = createMetrics();
  const events = new EventFeed(db, logger);
  const api = await createApi({
    db,
    sealer,
    logger,
    listenerId,
    metrics,
    traces: null,
    events,
    settings: apiSettings,
    uploads: new DirectoryUploads(config.dataDir),
    contexts: null,
    readiness: () => [],
    databaseEnvironment: async () => ({}),
    tracing: null,
    registry: "a benchmark needs none.",
    github: { isConfigured: true, current: async () => null },
    explain: async () => undefined,
    tunnels: new Tunnels(db, () => ""),
    openExec: () => Promise.reject(new Error("no agents in this test")),
    callAgent: () => undefined,
  });
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const { registry } = metrics;
  const readMetrics = async () => ({ contentType: registry.contentType, text: await registry.metrics() });
  const listening = await listen(
    { api, gateway, registryProxy: null, metrics: readMetrics },
    {
      host: "127.0.0.1",
      port: 0,
      gatewayPort: undefined,
    },
  );
  return {
    url: listening.url,
    db,
    async close() {
      await events.close();
      await listening.close();
      sealer.close();
      await db.close();
    },
  };
}
