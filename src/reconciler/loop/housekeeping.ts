import { listArtifacts } from "../../builds/cache/artifact.ts";
import { metricsRetentionDays } from "../../contract/logs/metrics.ts";
import { resolvedAlertDays } from "../../domain/alert-rules.ts";
import {
  artifactsKeptMax,
  housekeepingIntervalMs,
  logLinesKeptMax,
  signInFinishTimeoutMs,
} from "../../domain/limits.ts";
import { deliveryRetentionDays } from "../../domain/webhook-schedule.ts";
import { updateUnusedDeployments } from "../../store/deployments/unused-deployments.ts";
import type { Db } from "../../store/engine/database.ts";
import {
  deleteOrphanedReports,
  dropSupersededArtifacts,
  dropUpload,
  findKnownArtifactKeys,
  retireUnusedUploads,
  trimAuditLog,
  trimLogEntries,
  trimOlder,
} from "../../store/maintenance/retention.ts";
import { failInterruptedSignIns } from "../../store/oauth/oauth-requests.ts";
import { acquireLease, releaseLease, renewLease } from "../../store/queue/leases.ts";
import { renewDataKey, resealValues } from "../../store/secrets/reseal.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import { savedResponseDays } from "../../store/tenants/idempotency-keys.ts";
import { sealAddresses } from "../../store/webhooks/webhooks.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { archiveLogLines, type LogArchive, trimLogArchive } from "./log-archive.ts";

export interface HousekeepingDeps {
  db: Db;
  sealer: Sealer;
  logger: Logger;
  settings: {
    /** Unique to this start of the server. */
    owner: string;
    artifactsDir: string;
    logRetentionDays: number;
    /** Age in days up to which archived log lines are kept. */
    logArchiveDays: number;
    eventRetentionDays: number;
    /** 0: kept without limit. */
    auditRetentionDays: number;
    /** Age in days at which a data key is replaced; 0: never. */
    dataKeyDays: number;
    /** Days without a request after which a deployment becomes UNUSED; undefined: never. */
    unusedAfterDays: number | undefined;
  };
  /** null: log lines are deleted at the end of their retention. */
  logArchive: LogArchive | null;
  /** @param objectPath as in the row of the upload */
  removeUpload(objectPath: string): Promise<void>;
  /** Removes uploads that a server was deleting when it died, and returns how many files and directories. */
  removeDoomedUploads(): Promise<number>;
  /** Removes images from this server's registry that no saved revision needs, and returns how many. */
  removePushedImages(signal: AbortSignal): Promise<number>;
  /** Removes a built artifact and returns whether it is gone. One that still runs stays until the next round. */
  removeArtifact(key: string): Promise<boolean>;
}

/** Time after which a listener no longer tries to remove an image. */
const removalRetryDays = 30;

/** Removes one kind of old data, or makes a change that only time brings about. Returns how many items it changed. */
type Chore = (deps: HousekeepingDeps, signal: AbortSignal) => Promise<number>;

/** Chores of the database. One server at a time does them. */
const sharedChores: Record<string, Chore> = {
  "saved responses": ({ db }, signal) => trimOlder(db, "idempotency_keys", { days: savedResponseDays }, signal),
  events: ({ db, settings }, signal) => trimOlder(db, "events", { days: settings.eventRetentionDays }, signal),
  "audit log": async ({ db, settings: { auditRetentionDays: days } }, signal) =>
    days === 0 ? 0 : trimAuditLog(db, { days }, signal),
  "interrupted sign-ins": ({ db }) => failInterruptedSignIns(db, { afterMs: signInFinishTimeoutMs }),
  "sign-ins": ({ db }, signal) => trimOlder(db, "oauth_requests", { days: 1 }, signal),
  "token events": ({ db, settings }, signal) =>
    trimOlder(db, "oauth_token_events", { days: settings.eventRetentionDays }, signal),
  "data keys": async ({ db, sealer, settings: { dataKeyDays: days } }) =>
    Number(days > 0 && (await renewDataKey(db, sealer, { days }))),
  "values under older data keys": ({ db, sealer }, signal) => resealValues(db, sealer, signal),
  "webhooks of code hosts": ({ db }, signal) => trimOlder(db, "host_deliveries", { days: 7 }, signal),
  "plain addresses of webhooks": ({ db, sealer }) => sealAddresses(db, sealer),
  "webhook deliveries": ({ db }, signal) =>
    trimOlder(db, "webhook_deliveries", { days: deliveryRetentionDays }, signal),
  "resolved alerts": ({ db }, signal) => trimOlder(db, "alerts", { days: resolvedAlertDays }, signal),
  metrics: ({ db }, signal) => trimOlder(db, "metric_minutes", { days: metricsRetentionDays }, signal),
  "log entries": ({ db, settings: { logRetentionDays: days }, logArchive }, signal) =>
    logArchive === null
      ? trimLogEntries(db, { days, linesMax: logLinesKeptMax }, signal)
      : archiveLogLines(db, logArchive, { days }, signal),
  "unused deployments": ({ db, settings }) => updateUnusedDeployments(db, settings.unusedAfterDays ?? null),
  "reports of deleted deployments": ({ db }) => deleteOrphanedReports(db),
  "images that could not be removed": ({ db }, signal) =>
    trimOlder(db, "image_removals", { days: removalRetryDays }, signal),
  artifacts: ({ db }) => dropSupersededArtifacts(db, artifactsKeptMax),
  uploads: removeUnusedUploads,
};

/** Removes unused uploads. A file that cannot be removed does not hold up the others, and is retried in the next round. */
async function removeUnusedUploads({ db, removeUpload }: HousekeepingDeps): Promise<number> {
  const unused = await retireUnusedUploads(db);
  const failures: unknown[] = [];
  for (const objectPath of unused) {
    await removeUpload(objectPath)
      .then(() => dropUpload(db, objectPath))
      .catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
  return unused.length;
}

/** Chores of the disk of this server. Archived log lines may be on it, also those that it stored when it had the lease. */
const ownChores: Record<string, Chore> = {
  "artifact directories": (deps, signal) => sweepArtifacts(deps, signal, artifactAgeMinMs),
  "pushed images": ({ removePushedImages }, signal) => removePushedImages(signal),
  "archived log lines": async ({ db, settings, logArchive }, signal) =>
    logArchive === null ? 0 : trimLogArchive(db, logArchive, { days: settings.logArchiveDays }, signal),
};

const leaseName = "housekeeping";
const leaseMs = 60_000;

/** Removes old and orphaned data every few minutes. A chore that fails does not affect the others. */
export class Housekeeping {
  readonly #deps: HousekeepingDeps;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: HousekeepingDeps) {
    this.#deps = deps;
  }

  start(intervalMs = housekeepingIntervalMs): void {
    this.#timer = setInterval(() => {
      this.#running = this.#running.then(() => this.tidy());
    }, intervalMs).unref();
  }

  /** Removes what a server was deleting when it died. Call it before builds start, so that no build needs any of it. */
  async sweepLeft(): Promise<void> {
    await this.#doAll({
      "left artifacts": (deps, signal) => sweepArtifacts(deps, signal, anyAge),
      "left uploads": ({ removeDoomedUploads }) => removeDoomedUploads(),
    });
  }

  /** Does one round of all chores. While another server does those of the database, only our own disk is tidied. */
  async tidy(): Promise<void> {
    const { db, logger, settings } = this.#deps;
    const lease = { name: leaseName, owner: settings.owner };
    try {
      if (await acquireLease(db, { ...lease, leaseMs })) {
        const renewal = setInterval(() => void renewLease(db, { ...lease, leaseMs }).catch(() => {}), leaseMs / 3);
        await this.#doAll(sharedChores).finally(() => clearInterval(renewal));
        await releaseLease(db, lease);
      }
      await this.#doAll(ownChores);
    } catch (error) {
      if (!this.#stopping.signal.aborted) logger.warn({ error: describeError(error) }, "housekeeping failed");
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort(new Error("the server is stopping"));
    await this.#running;
  }

  async #doAll(chores: Record<string, Chore>): Promise<void> {
    for (const [chore, act] of Object.entries(chores)) {
      if (this.#stopping.signal.aborted) return;
      try {
        const count = await act(this.#deps, this.#stopping.signal);
        if (count > 0) this.#deps.logger.info({ chore, count }, "housekeeping chore completed");
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        this.#deps.logger.warn({ chore, error: describeError(error) }, "housekeeping chore failed");
      }
    }
  }
}

/** Younger directories stay, because a build that found its artifact may not have recorded it yet. */
const artifactAgeMinMs = 3_600_000;

/** Includes directories that seem to be from the future, because the clock may have been set back. */
const anyAge = Number.NEGATIVE_INFINITY;

/** Removes artifact directories that no row names: those of deleted deployments and of superseded revisions. */
async function sweepArtifacts(
  { db, settings, removeArtifact }: HousekeepingDeps,
  signal: AbortSignal,
  ageMinMs: number,
): Promise<number> {
  const old = (await listArtifacts(settings.artifactsDir)).filter(
    ({ builtAt }) => Date.now() - builtAt.getTime() >= ageMinMs,
  );
  const known = await findKnownArtifactKeys(
    db,
    old.map(({ key }) => key),
  );
  let removed = 0;
  for (const { key } of old) {
    if (known.has(key) || signal.aborted) continue;
    // Removing others took time, and a build may have found this one meanwhile.
    if ((await findKnownArtifactKeys(db, [key])).has(key)) continue;
    if (await removeArtifact(key)) removed += 1;
  }
  return removed;
}
