import { randomUUID } from "node:crypto";
import path from "node:path";
import { Tunnels } from "../api/listeners/tunnels.ts";
import { listTemplates } from "../builds/sources/templates.ts";
import type { Uploads } from "../builds/sources/uploads.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { GithubApps } from "../integrations/github-app.ts";
import type { ObjectStorage } from "../integrations/object-storage.ts";
import type { DatabaseServers } from "../reconciler/steps/database-servers.ts";
import type { Registry } from "../registry/registry.ts";
import { closeToOtherRoles } from "../store/engine/close-database.ts";
import { type Db, openDatabase } from "../store/engine/database.ts";
import { lockDirectory } from "../store/engine/embedded/directory-lock.ts";
import { migrate } from "../store/engine/migrate.ts";
import { EventFeed } from "../store/events/event-feed.ts";
import { takeOverLeases } from "../store/queue/release-leases.ts";
import { openSealer, type Sealer } from "../store/secrets/seal.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import type { Traces } from "../telemetry/traces.ts";
import { type Bootstrapped, bootstrap } from "./bootstrap.ts";
import { BucketContexts } from "./build-contexts.ts";
import type { Closing } from "./closing.ts";
import type { Config } from "./config.ts";
import { openDataDirectory } from "./data-directory.ts";
import { databaseServers } from "./databases.ts";
import { Execs } from "./exec.ts";
import { crashAt } from "./fault-point.ts";
import { openGithubApps } from "./github.ts";
import { installationIdOf } from "./installation.ts";
import { openTracing, type Tracing } from "./langsmith-projects.ts";
import { replicaUrlOf } from "./listen.ts";
import { readMasterKeys } from "./master-keys.ts";
import { openTraces } from "./otel.ts";
import { ImageNames, openRegistry } from "./registry.ts";
import { openBucket, openUploads } from "./uploads.ts";

/** Shared dependencies of all parts above the store. */
export interface ServerContext {
  config: Config;
  logger: Logger;
  db: Db;
  sealer: Sealer;
  databases: DatabaseServers | null;
  tracing: Tracing;
  /** Traces of this server itself. */
  traces: Traces | null;
  /** The registry, or the reason why there is none. */
  registry: Registry | string;
  imageNames: ImageNames;
  /** The bucket; null: this server keeps everything in its data directory. */
  bucket: ObjectStorage | null;
  uploads: Uploads;
  /** Build contexts that the other servers can serve too; null: each server has its own. */
  contexts: BucketContexts | null;
  github: GithubApps;
  events: EventFeed;
  metrics: Metrics;
  installed: Bootstrapped;
  installationId: string;
  /** Id of this run of the server. It starts with the installation id. */
  owner: string;
  /** Parts that have not started yet. `GET /ready` lists them. */
  waitingFor: Set<string>;
  /** The gateway, which starts after the API, because it asks the API about callers. */
  agents: { gateway: Gateway | null; execs: Execs; tunnels: Tunnels };
  /** Base of generated URLs when no request determines it. */
  address: { own: string; readonly public: string };
}

/** Reports a wrong templates directory at start, instead of when the first user deploys a template. */
async function checkTemplates({ templatesDir }: Config): Promise<void> {
  if (templatesDir === undefined) return;
  await listTemplates(templatesDir).catch((error: unknown) => {
    throw new Error(`PIERHEAD_TEMPLATES_DIR must be a directory of templates: ${describeError(error)}`);
  });
}

/** Limit for reaching the bucket, and for moving older archives there. */
const uploadsTimeoutMs = 30 * 60_000;

/**
 * Opens everything that the parts above the store share, inside the lock of the data directory.
 * @throws Error naming what cannot be opened: templates, data directory, database, master keys, bucket.
 */
export async function openContext(config: Config, logger: Logger, closing: Closing): Promise<ServerContext> {
  await checkTemplates(config);
  await openDataDirectory(config.dataDir, logger);
  // Replicas, artifacts and state are in this directory, so one server at a time may use it, whichever database it uses.
  const lock = await lockDirectory(path.join(config.dataDir, "server.lock"), logger);
  closing.add("data directory", () => lock.release());
  // Inside the lock: when two servers start at once, only one creates the id.
  const installationId = await installationIdOf(config.dataDir);
  const traces = await openTraces(config, { name: "pierhead", instanceId: installationId, logger });
  // Closes last, because the other parts still send traces while they stop.
  closing.add("traces", async () => traces?.close());
  const db = await openDatabase({
    databaseUrl: config.databaseUrl,
    dataDir: config.dataDir,
    logger,
    ...(config.databaseTemplateDir === undefined ? {} : { templateDirectory: config.databaseTemplateDir }),
    ...(config.faultPoint === undefined ? {} : { onReached: crashAt(config.faultPoint) }),
  });
  closing.add("database", () => db.close());
  if (config.agentPostgresUrl !== undefined) {
    await closeToOtherRoles(db, config.agentPostgresUrl).catch((error: unknown) => {
      logger.warn({ error: describeError(error) }, "roles of agents could not be kept from the server's own database");
    });
  }
  await migrate(db, { logger });
  await db.watchClock();
  const sealer = await openSealer(db, ...(await readMasterKeys(config, { mayCreate: true })));
  closing.add("sealer", async () => sealer.close());
  const address = {
    own: "",
    get public() {
      return config.publicUrl ?? this.own;
    },
  };
  // Before any work starts: leases with this installation's id belong to a run that has ended.
  await takeOverLeases(db, installationId);
  const registry = openRegistry(config, { sealer, logger });
  if (typeof registry !== "string") closing.add("registry", () => registry.close());
  const imageNames = new ImageNames(config, { db, registry, ownUrl: () => address.own });
  const opening = AbortSignal.timeout(uploadsTimeoutMs);
  const bucket = await openBucket(config, opening);
  return {
    config,
    logger,
    db,
    sealer,
    registry,
    imageNames,
    bucket,
    uploads: await openUploads(config.dataDir, bucket, opening, logger),
    contexts: bucket && new BucketContexts(bucket),
    databases: databaseServers(config, { installationId, imageNames, closing }),
    tracing: openTracing(config),
    traces,
    github: await openGithubApps(config, { db, sealer }),
    events: new EventFeed(db, logger),
    metrics: createMetrics(),
    installed: await bootstrap(db, config),
    installationId,
    owner: `${installationId}:${process.pid}-${randomUUID()}`,
    waitingFor: new Set(["reconciler", "listener"]),
    agents: {
      gateway: null,
      execs: new Execs(),
      tunnels: new Tunnels(db, () => config.replicaUrl ?? replicaUrlOf(config.host, address.own)),
    },
    address,
  };
}
