import { hostname } from "node:os";
import path from "node:path";
import { isDiskLow } from "../base/disk-reserve.ts";
import { dropArtifact } from "../builds/image/saved-image.ts";
import { templatesDirectory } from "../builds/sources/templates.ts";
import { sweepWorkDirs } from "../builds/worker/start-build.ts";
import { buildLeaseMs, outboundCallsMax } from "../domain/limits.ts";
import { BuildRunner } from "../reconciler/builds/build-runner.ts";
import { processWorkers } from "../reconciler/builds/build-workers.ts";
import { withClusterBuilds } from "../reconciler/builds/cluster-build.ts";
import { createCodeHostSteps } from "../reconciler/code-hosts/code-host-steps.ts";
import type { ReconcilerDeps, ReconcilerSettings } from "../reconciler/deps.ts";
import { Housekeeping } from "../reconciler/loop/housekeeping.ts";
import type { LogArchive } from "../reconciler/loop/log-archive.ts";
import { ReconcilerLoop } from "../reconciler/loop/loop.ts";
import { createBuildOrders, createBuildStore, createReconcilerStore } from "../reconciler/postgres-store.ts";
import { Slots } from "../reconciler/slots.ts";
import { findLiveBuilds } from "../store/builds/builds.ts";
import { AlertWorker } from "../webhooks/alert-worker.ts";
import { WebhookWorker } from "../webhooks/worker.ts";
import { tlsAddresses } from "./agents-domain.ts";
import type { Closing } from "./closing.ts";
import { baseImagesOf, buildTargetOf } from "./compute.ts";
import type { Config } from "./config.ts";
import { BucketLogArchive, DirectoryLogArchive } from "./log-archives.ts";
import { ScheduledBackups } from "./scheduled-backups.ts";
import type { ServerContext } from "./server-context.ts";
import { version } from "./version.ts";

/** Starts the background workers: reconciler, builds, housekeeping, backups, webhooks and alerts. */
export async function startWorkers(context: ServerContext, closing: Closing): Promise<void> {
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
    outward: new Slots(outboundCallsMax, config.workspaceSharePercent / 100),
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
    logArchive: logArchiveOf(context),
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

function logArchiveOf({ config, bucket }: ServerContext): LogArchive | null {
  if (config.logArchiveDays === 0) return null;
  return bucket === null ? new DirectoryLogArchive(config.dataDir) : new BucketLogArchive(bucket);
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
  const { dataDir, allowPrivateNetwork } = config;
  const addresses = tlsAddresses(config);
  const server = { id: installationId, name: hostname(), dataDir, addresses, allowPrivateNetwork };
  const alerts = new AlertWorker({ db, logger, owner, server });
  alerts.start();
  closing.add("alerts", () => alerts.stop());
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
