import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { hostname } from "node:os";
import path from "node:path";
import type { FastifyInstance } from "fastify";
import { createApi } from "../api/app.ts";
import { detectionPrefix } from "../api/detections/detection-routes.ts";
import { isDiskLow } from "../base/disk-reserve.ts";
import { removeAbandonedDirectories } from "../base/temporary-directories.ts";
import { dropArtifact } from "../builds/image/saved-image.ts";
import { listTemplates, templatesDirectory } from "../builds/sources/templates.ts";
import type { Uploads } from "../builds/sources/uploads.ts";
import { sweepWorkDirs } from "../builds/worker/start-build.ts";
import { buildLeaseMs, outboundCallsMax, streamHeartbeatMs } from "../domain/limits.ts";
import { createGateway, type Gateway } from "../gateway/gateway.ts";
import { gitPrefix } from "../integrations/git-program.ts";
import { type GithubApps, githubAddress } from "../integrations/github-app.ts";
import type { ObjectStorage } from "../integrations/object-storage.ts";
import { BuildRunner } from "../reconciler/builds/build-runner.ts";
import { processWorkers } from "../reconciler/builds/build-workers.ts";
import { withClusterBuilds } from "../reconciler/builds/cluster-build.ts";
import { createCodeHostSteps } from "../reconciler/code-hosts/code-host-steps.ts";
import type { ReconcilerDeps, ReconcilerSettings } from "../reconciler/deps.ts";
import { Housekeeping } from "../reconciler/loop/housekeeping.ts";
import { ReconcilerLoop } from "../reconciler/loop/loop.ts";
import { explainDeployment } from "../reconciler/plan/explain.ts";
import { createBuildOrders, createBuildStore, createReconcilerStore } from "../reconciler/postgres-store.ts";
import { Slots } from "../reconciler/slots.ts";
import { type DatabaseServers, databaseEnvironment } from "../reconciler/steps/database-servers.ts";
import type { Registry } from "../registry/registry.ts";
import { findLiveBuilds } from "../store/builds/builds.ts";
import { type Db, openDatabase } from "../store/engine/database.ts";
import { lockDirectory } from "../store/engine/embedded/directory-lock.ts";
import { migrate } from "../store/engine/migrate.ts";
import { EventFeed } from "../store/events/event-feed.ts";
import { takeOverLeases } from "../store/queue/release-leases.ts";
import { openSealer, type Sealer } from "../store/secrets/seal.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import type { Traces } from "../telemetry/traces.ts";
import { AlertWorker } from "../webhooks/alert-worker.ts";
import { WebhookWorker } from "../webhooks/worker.ts";
import { tlsAddresses } from "./agents-domain.ts";
import { type Bootstrapped, bootstrap, writeCredentials } from "./bootstrap.ts";
import { BucketContexts } from "./build-contexts.ts";
import { Closing } from "./closing.ts";
import { baseImagesOf, buildTargetOf, openCompute } from "./compute.ts";
import type { Config } from "./config.ts";
import { consoleDirectory } from "./console.ts";
import { openDataDirectory } from "./data-directory.ts";
import { databaseServers } from "./databases.ts";
import { deploymentMetrics, metricsRights, readLevels } from "./deployment-metrics.ts";
import { Execs } from "./exec.ts";
import { crashAt } from "./fault-point.ts";
import { freeBytes } from "./files.ts";
import { openGithubApps } from "./github.ts";
import { installationIdOf } from "./installation.ts";
import { openTracing, type Tracing } from "./langsmith-projects.ts";
import { listen } from "./listen.ts";
import { type RunningListener, startListener } from "./listener.ts";
import { callerOf, inProcessIdentify } from "./listener-transport.ts";
import { readMasterKeys } from "./master-keys.ts";
import { openTraces } from "./otel.ts";
import { ImageNames, openRegistry } from "./registry.ts";
import { ScheduledBackups } from "./scheduled-backups.ts";
import { MemoryReleaser } from "./tuning/release-memory.ts";
import { openBucket, openUploads } from "./uploads.ts";
import { version } from "./version.ts";

export interface Server {
  /** Base URL of API, console and gateway paths. */
  url: string;
  credentials: { adminKey: string; workspaceId: string; isNewKey: boolean };
  db: Db;
  gateway: Gateway;
  /** Shuts down cleanly: requests in flight finish, builds are handed over. Agents keep running unless `stopReplicas` is set. */
  close(options?: { stopReplicas: boolean }): Promise<void>;
}

/**
 * Creates and connects all parts of the server and starts them, lowest layer first. If a part fails, it stops those already started.
 * @throws Error naming the part and the reason: directory in use, port taken, database unreachable.
 */
export async function startServer(config: Config, { logger }: { logger: Logger }): Promise<Server> {
  const closing = new Closing(logger);
  try {
    const context = await openContext(config, logger, closing);
    const { db, installed } = context;
    const api = await openApi(context, closing);
    const gateway = createGateway({
      rootDomain: config.agentsDomain?.domain ?? config.rootDomain,
      pathPrefix: "/d/",
      publicUrl: config.publicUrl ?? null,
      trustedProxies: config.trustedProxies,
      logger,
      identify: inProcessIdentify(callerOf(api, config.tuningOff)),
      limits: { workspaceShare: config.workspaceSharePercent / 100 },
    });
    context.agents.gateway = gateway;
    closing.add("gateway", () => gateway.close({ graceMs: 2_000 }));
    // Agents may still run from an earlier start. Restore their routes before listening, so that callers do not get a 404.
    const listener = await startBuiltinListener(context, api, gateway);
    if (listener !== null) closing.add("listener", () => listener.stop());
    await listener?.routed();
    context.waitingFor.delete("listener");
    const registryProxy = typeof context.registry === "string" ? null : context.registry.proxy;
    const metrics = (request: IncomingMessage) => readMetrics(context, gateway, request);
    const listening = await listen({ api, gateway, registryProxy, metrics }, config);
    closing.add("sockets", () => listening.close());
    // Closes before the sockets: requests that wait for an agent get their answer while their connection is open.
    closing.add("waiting requests", async () => gateway.stopAccepting());
    closing.add("event streams", () => context.events.close());
    closing.add("programs beside agents", () => context.agents.execs.close());
    context.address.own = listening.url;

    await startReconciler(context, closing);
    context.waitingFor.delete("reconciler");
    if (!config.tuningOff.has("memory-release")) {
      const memory = new MemoryReleaser();
      closing.add("memory", async () => memory.stop());
    }

    await writeCredentials(config, {
      url: listening.url,
      workspace_id: installed.workspaceId,
      api_key: installed.adminKey,
      pid: process.pid,
    });
    const { mode, compute } = config;
    logger.info({ url: listening.url, mode, compute, database: db.kind, version }, "server started");
    const { kind, because, items } = config.posture;
    const switches = items.map(({ name, is_on, because }) => `${name}: ${is_on ? "on" : "off"} (${because})`);
    logger.info({ posture: kind, because, items: switches }, "posture determined");
    return {
      url: listening.url,
      credentials: installed,
      db,
      gateway,
      close: async (options) => {
        db.limitShutdown();
        if (options?.stopReplicas) await listener?.stopReplicas();
        await closing.run();
      },
    };
  } catch (error) {
    await closing.run();
    throw error;
  }
}

/** Shared dependencies of all parts above the store. */
interface ServerContext {
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
  agents: { gateway: Gateway | null; execs: Execs };
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

async function openContext(config: Config, logger: Logger, closing: Closing): Promise<ServerContext> {
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
  await migrate(db);
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
    agents: { gateway: null, execs: new Execs() },
    address,
  };
}

/** Returns the metrics of this server, and those of its deployments when the caller may see them. */
async function readMetrics(
  { config, db, metrics }: ServerContext,
  gateway: Gateway,
  request: IncomingMessage,
): Promise<{ contentType: string; text: string } | null> {
  const rights = metricsRights(request, { isAnonymous: config.anonymousMetrics, token: config.metricsToken });
  if (rights === "none") return null;
  metrics.dataDirectoryFree.set(await freeBytes(config.dataDir));
  const own = await metrics.registry.metrics();
  const { contentType } = metrics.registry;
  if (rights === "own") return { contentType, text: own };
  return { contentType, text: own + deploymentMetrics(gateway.counts(), await readLevels(db)) };
}

async function openApi(context: ServerContext, closing: Closing): Promise<FastifyInstance> {
  const { config, db, sealer, registry, databases, tracing, traces, github, logger, metrics, events } = context;
  const { installed, waitingFor } = context;
  const store = createReconcilerStore(db, sealer);
  const api = await createApi({
    db,
    sealer,
    logger,
    metrics,
    traces,
    events,
    listenerId: installed.listenerId,
    settings: apiSettings(context),
    uploads: context.uploads,
    contexts: context.contexts,
    readiness: () => [...waitingFor],
    tracing: tracing.projects,
    github,
    databaseEnvironment: (deployment, secrets) => databaseEnvironment(store, databases, deployment, secrets),
    registry: typeof registry === "string" ? registry : { signer: registry.signer, host: config.registryHost ?? null },
    explain: (deploymentId: string) => explainDeployment(db, deploymentId),
    openExec: (...parts) => context.agents.execs.find(...parts),
    callAgent: (...parts) => context.agents.gateway?.handleFromConsole(...parts),
  });
  closing.add("api", () => api.close());
  await removeAbandonedDirectories([detectionPrefix, gitPrefix]);
  return api;
}

async function startReconciler(context: ServerContext, closing: Closing): Promise<void> {
  const { config, logger, db, sealer, databases, imageNames, tracing, traces, github, metrics } = context;
  const { address, installationId, owner, uploads, contexts } = context;
  await sweepWorkDirs(path.join(config.dataDir, "builds"), () => findLiveBuilds(db));
  const settings = { owner, concurrencyMax: config.buildConcurrencyMax, leaseMs: buildLeaseMs };
  const workers = withClusterBuilds(processWorkers, {
    orders: createBuildOrders(db),
    contexts,
    dataDir: config.dataDir,
  });
  const buildDeps = { store: createBuildStore(db), workers, logger, ended: metrics.builds };
  const builds = new BuildRunner(buildDeps, settings);
  const buildTarget = buildTargetOf(config, installationId);
  const files = {
    locateUpload: (objectPath: string, lifeMs: number) => uploads.locate(objectPath, lifeMs),
    async removeUploads(deploymentId: string) {
      await uploads.removeAllOf(deploymentId);
      await contexts?.removeAllOf(deploymentId);
    },
    isDiskLow: () => isDiskLow(config.dataDir, { reserveMib: config.diskReserveMib }),
    removeArtifact: (key: string) => dropArtifact(path.join(config.dataDir, "artifacts", key), buildTarget),
  };
  const shared = {
    store: createReconcilerStore(db, sealer),
    logger,
    traces,
    github,
    outward: new Slots(outboundCallsMax),
    settings: {
      ...reconcilerSettings(config, address),
      buildTarget,
      baseImages: baseImagesOf(config, installationId),
      hasTracing: tracing.backend !== null,
    },
    tracing: tracing.projects,
  };
  const deps: ReconcilerDeps = {
    ...shared,
    db,
    builds,
    codeHosts: createCodeHostSteps({ ...shared, db, sealer }),
    databases,
    images: config.compute === "docker" ? imageNames : null,
    files,
  };
  const housekeeping = new Housekeeping({
    db,
    sealer,
    logger,
    settings: { ...config, owner, artifactsDir: path.join(config.dataDir, "artifacts") },
    removeArtifact: files.removeArtifact,
    removePushedImages: (signal) => imageNames.removeUnneeded(signal),
    removeDoomedUploads: () => uploads.finishRemovals(),
    removeUpload: (objectPath) => uploads.remove(objectPath),
  });
  await housekeeping.sweepLeft();
  const loop = new ReconcilerLoop(deps, metrics.reconciler, { owner, resyncIntervalMs: config.resyncIntervalMs });
  loop.start();
  housekeeping.start();
  startBackups(context, closing);
  startNotifications(context, closing);
  closing.add("builds", () => builds.close());
  closing.add("reconciler", () => loop.stop());
  closing.add("housekeeping", () => housekeeping.stop());
}

function startNotifications(context: ServerContext, closing: Closing): void {
  const { config, db, events, sealer, logger, metrics, owner } = context;
  const { allowPrivateNetwork } = config;
  const webhooks = new WebhookWorker({
    ...{ db, feed: events, sealer, logger, metrics },
    settings: {
      ...{ owner, allowPrivateNetwork, recordsAnswers: config.webhookAnswers, version },
      ...{ consoleUrl: config.publicUrl ?? null, mail: config.mail },
    },
  });
  webhooks.start();
  startAlerts(context, closing);
  closing.add("webhooks", () => webhooks.stop());
}

function startBackups({ config, db, bucket, logger, metrics, owner }: ServerContext, closing: Closing): void {
  const { backupHours: everyHours, backupsKept: keptMax, dataDir } = config;
  if (bucket === null || everyHours === 0) return;
  const backups = new ScheduledBackups({
    ...{ db, logger, version, dataDir, storage: bucket, newestAt: metrics.newestBackup },
    settings: { owner, everyHours, keptMax },
  });
  backups.start();
  closing.add("backups", () => backups.stop());
}

function startAlerts({ config, db, logger, owner, installationId }: ServerContext, closing: Closing): void {
  const server = { id: installationId, name: hostname(), dataDir: config.dataDir, addresses: tlsAddresses(config) };
  const alerts = new AlertWorker({ db, logger, owner, server });
  alerts.start();
  closing.add("alerts", () => alerts.stop());
}

async function startBuiltinListener(
  { config, logger, traces, imageNames, installed, installationId, agents }: ServerContext,
  api: FastifyInstance,
  gateway: Gateway,
): Promise<RunningListener | null> {
  const compute = await openCompute(config, { installationId, imageNames, logger });
  if (compute === null) return null;
  agents.execs.compute = compute;
  return startListener({
    compute,
    callApi: callerOf(api, config.tuningOff),
    gateway,
    ...{ logger, traces },
    listenerKey: installed.listenerKey,
    dataDir: config.dataDir,
    scaleDownAfterMs: config.scaleDownAfterMs,
    agentsUrl: config.agentsDomain?.urlTemplate ?? null,
    installationId,
  }).catch(async (error: unknown) => {
    await compute.close();
    throw new Error(`the listener could not be started: ${describeError(error)}`, { cause: error });
  });
}

function reconcilerSettings(
  config: Config,
  address: ServerContext["address"],
): Omit<ReconcilerSettings, "hasTracing" | "buildTarget" | "baseImages"> {
  return {
    mode: config.mode,
    computeType: config.compute,
    allowLocalSources: config.allowLocalSources,
    allowPrivateNetwork: config.allowPrivateNetwork,
    templatesDir: config.templatesDir ?? templatesDirectory,
    dataDir: config.dataDir,
    cacheDir: config.cacheDir,
    hasEndpointAuth: config.endpointAuth,
    get controlPlaneUrl() {
      return address.public;
    },
    get deploymentsUrl() {
      return `${address.public}/d/`;
    },
    deployTimeoutMs: config.deployTimeoutMs,
    buildTimeoutMs: config.buildTimeoutMs,
    drainTimeoutMs: config.drainTimeoutMs,
    idleAfterMs: config.idleAfterMs,
    branchPollMs: config.branchPollMs,
  };
}

function apiSettings({ config, address, tracing, owner }: ServerContext) {
  return {
    owner,
    serviceSecret: config.serviceSecret ?? null,
    oidc: config.oidc,
    tracing: tracing.backend,
    mode: config.mode,
    region: config.region,
    regions: config.regions,
    version,
    basePath: config.basePath,
    /** null: absolute URLs are built from the request. */
    publicUrl: config.publicUrl ?? null,
    ownUrl: () => address.public,
    posture: config.posture,
    corsOrigins: config.corsOrigins,
    agentsDomain: config.agentsDomain?.domain ?? null,
    trustedProxies: config.trustedProxies,
    dataDir: config.dataDir,
    templatesDir: config.templatesDir ?? templatesDirectory,
    buildTarget: config.compute === "docker" ? ("image" as const) : ("directory" as const),
    consoleDir: consoleDirectory,
    allowLocalSources: config.allowLocalSources,
    allowPrivateNetwork: config.allowPrivateNetwork,
    mail: config.mail,
    githubUrl: githubAddress(config.githubUrl) ?? config.githubUrl,
    allowsExec: config.allowsExec,
    uncappedResources: config.uncappedResources,
    sharedAuthOrganizationId: config.sharedAuthOrganizationId ?? null,
    hasBuiltinDataPlane: config.compute !== "none" || config.listenerKey !== undefined,
    isDataPlaneRemote: config.listenerKey !== undefined,
    streamHeartbeatMs,
    rateLimit: { perS: config.rateLimitPerS, burst: config.rateLimitBurst },
    workspaceShare: config.workspaceSharePercent / 100,
    uploadSpaceMib: config.uploadSpaceMib,
    diskReserveMib: config.diskReserveMib,
    logLinesPerS: config.logLinesPerS,
  };
}
