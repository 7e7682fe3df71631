import { listArtifacts } from "../../builds/cache/artifact.ts";
import { metricsRetentionDays } from "../../contract/logs/metrics.ts";
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

export interface HousekeepingDeps {
  db: Db;
  sealer: Sealer;
  logger: Logger;
  settings: {
    /** Unique to this start of this server. */
    owner: string;
    artifactsDir: string;
    logRetentionDays: number;
    eventRetentionDays: number;
    /** 0: for ever. */
    auditRetentionDays: number;
    /** How old a data key gets before there is a new one; 0: any age. */
    dataKeyDays: number;
    /** Deployments without a request for so long are UNUSED; undefined: never. */
    unusedAfterDays: number | undefined;
  };
  /** @param objectPath as in the row of the upload. */
  removeUpload(objectPath: string): Promise<void>;
  /** What a server that died was deleting of the uploads. @returns how many files and directories. */
  removeDoomedUploads(): Promise<number>;
  /** Of the registry of this server: what no kept revision needs. @returns how many. */
  removePushedImages(signal: AbortSignal): Promise<number>;
  /** Of a built artifact. @returns whether it is gone: what still runs stays for the next round. */
  removeArtifact(key: string): Promise<boolean>;
}

/** One kind of rubbish, or of what only time brings about: sees to what is there and says how much that was. */
type Chore = (deps: HousekeepingDeps, signal: AbortSignal) => Promise<number>;

/** What lies in the database; one server at a time sees to it. */
const sharedChores: Record<string, Chore> = {
  "kept answers": ({ db }, signal) => trimOlder(db, "idempotency_keys", { days: savedResponseDays }, signal),
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
  "messages of code hosts": ({ db }, signal) => trimOlder(db, "host_deliveries", { days: 7 }, signal),
  "plain addresses of webhooks": ({ db, sealer }) => sealAddresses(db, sealer),
  "webhook deliveries": ({ db }, signal) =>
    trimOlder(db, "webhook_deliveries", { days: deliveryRetentionDays }, signal),
  metrics: ({ db }, signal) => trimOlder(db, "metric_minutes", { days: metricsRetentionDays }, signal),
  "log entries": ({ db, settings }, signal) =>
    trimLogEntries(db, { days: settings.logRetentionDays, linesMax: logLinesKeptMax }, signal),
  "unused deployments": ({ db, settings }) => updateUnusedDeployments(db, settings.unusedAfterDays ?? null),
  "reports of gone deployments": ({ db }) => deleteOrphanedReports(db),
  artifacts: ({ db }) => dropSupersededArtifacts(db, artifactsKeptMax),
  uploads: removeUnusedUploads,
};

/** A file that cannot be removed keeps no other from going, and is tried again. */
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

/** What lies on the disk of this server. */
const ownChores: Record<string, Chore> = {
  "artifact directories": (deps, signal) => sweepArtifacts(deps, signal, artifactAgeMinMs),
  "pushed images": ({ removePushedImages }, signal) => removePushedImages(signal),
};

const leaseName = "housekeeping";
const leaseMs = 60_000;

/** Sees, every few minutes, to what has grown old or belongs to nobody any more. Each chore fails alone. */
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

  /** What a server that died was about to remove; before builds begin, so that none of them has a claim on it. */
  async sweepLeft(): Promise<void> {
    await this.#doAll({
      "left artifacts": (deps, signal) => sweepArtifacts(deps, signal, anyAge),
      "left uploads": ({ removeDoomedUploads }) => removeDoomedUploads(),
    });
  }

  /** One round of everything. Another server may be at the database's part: then only our own disk is tidied. */
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
        if (count > 0) this.#deps.logger.info({ chore, count }, "housekeeping did a chore");
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        this.#deps.logger.warn({ chore, error: describeError(error) }, "a chore of housekeeping failed");
      }
    }
  }
}

/** A build that found its artifact in place may not have noted it yet: directories younger than this stay. */
const artifactAgeMinMs = 3_600_000;

/** Also those that seem to be of later: somebody may have set the clock back. */
const anyAge = Number.NEGATIVE_INFINITY;

/** Directories of artifacts that no row names: of deployments that are gone, of revisions that were superseded. */
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
    // Removing takes its time: a build may have come to it meanwhile, and found it in place.
    if ((await findKnownArtifactKeys(db, [key])).has(key)) continue;
    if (await removeArtifact(key)) removed += 1;
  }
  return removed;
}
