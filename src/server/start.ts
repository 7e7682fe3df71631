import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import { createApi } from "../api/app.ts";
import { detectionPrefix } from "../api/detections/detection-routes.ts";
import { removeAbandonedDirectories } from "../base/temporary-directories.ts";
import { templatesDirectory } from "../builds/sources/templates.ts";
import { agentPort } from "../compute/docker/replicas/container.ts";
import { detectionTimeoutMs, streamHeartbeatMs } from "../domain/limits.ts";
import { createGateway, type Gateway } from "../gateway/gateway.ts";
import { gitPrefix } from "../integrations/git-program.ts";
import { githubAddress } from "../integrations/github-app.ts";
import { explainDeployment } from "../reconciler/plan/explain.ts";
import { createReconcilerStore } from "../reconciler/postgres-store.ts";
import { databaseEnvironment } from "../reconciler/steps/database-servers.ts";
import type { Db } from "../store/engine/database.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import { writeCredentials } from "./bootstrap.ts";
import { Closing } from "./closing.ts";
import { openCompute } from "./compute.ts";
import type { Config } from "./config.ts";
import { consoleDirectory } from "./console.ts";
import { describeAgentDatabases } from "./databases.ts";
import { deploymentMetrics, metricsRights, readLevels } from "./deployment-metrics.ts";
import { freeBytes } from "./files.ts";
import { bridgesToLoopback, lowKernelLimits } from "./kernel-limits.ts";
import { listen } from "./listen.ts";
import { type RunningListener, startListener } from "./listener.ts";
import { callerOf, inProcessIdentify } from "./listener-transport.ts";
import { openContext, type ServerContext } from "./server-context.ts";
import { startWorkers } from "./start-workers.ts";
import { MemoryReleaser } from "./tuning/release-memory.ts";
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
      ...(config.compute === "docker" && { agentPort }),
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
    closing.add("connections of listeners", async () => context.agents.tunnels.close());
    context.address.own = listening.url;

    await startWorkers(context, closing);
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
    const kinds = { database: db.kind, agent_databases: describeAgentDatabases(config) };
    logger.info({ url: listening.url, mode, compute, ...kinds, version }, "server started");
    logPosture(config, logger);
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

function logPosture({ posture: { kind, because, items }, compute }: Config, logger: Logger): void {
  const switches = items.map(({ name, is_on, because }) => `${name}: ${is_on ? "on" : "off"} (${because})`);
  logger.info({ posture: kind, because, items: switches }, "posture determined");
  if (kind !== "public" || compute !== "docker") return;
  const guide = "docs/guides/docker.md";
  const [limits, bridges] = [lowKernelLimits(), bridgesToLoopback()];
  if (limits.length > 0) logger.warn({ limits, guide }, "limits of the kernel that agents share are low");
  if (bridges.length > 0) logger.warn({ bridges, guide }, "builds can reach the loopback of this machine");
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
    tunnels: context.agents.tunnels,
    callAgent: (...parts) => context.agents.gateway?.handleFromConsole(...parts),
  });
  closing.add("api", () => api.close());
  await removeAbandonedDirectories([detectionPrefix, gitPrefix]);
  return api;
}

async function startBuiltinListener(
  { config, logger, traces, imageNames, installed, installationId, agents }: ServerContext,
  api: FastifyInstance,
  gateway: Gateway,
): Promise<RunningListener | null> {
  const compute = await openCompute(config, {
    installationId,
    imageNames,
    logger,
    isPublic: config.posture.kind === "public",
  });
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
    detectionTimeoutMs,
    streamHeartbeatMs,
    rateLimit: { perS: config.rateLimitPerS, burst: config.rateLimitBurst },
    workspaceShare: config.workspaceSharePercent / 100,
    uploadSpaceMib: config.uploadSpaceMib,
    diskReserveMib: config.diskReserveMib,
    logLinesPerS: config.logLinesPerS,
  };
}
