import {
  buildTimeoutMs,
  deployTimeoutMs,
  drainTimeoutMs,
  eventRetentionDays,
  idleAfterMs,
  logRetentionDays,
  resyncIntervalMs,
  scaleDownAfterMs,
} from "../domain/limits.ts";
import { whole } from "./setting.ts";

/** Deadlines, intervals and retention. */
export const timeSettings = {
  buildTimeoutMs: whole("PIERHEAD_BUILD_TIMEOUT_MS", buildTimeoutMs, 1_000, 86_400_000, "Deadline for one build."),
  deployTimeoutMs: whole(
    "PIERHEAD_DEPLOY_TIMEOUT_MS",
    deployTimeoutMs,
    1_000,
    86_400_000,
    "Deadline for new replicas to become healthy.",
  ),
  drainTimeoutMs: whole(
    "PIERHEAD_DRAIN_TIMEOUT_MS",
    drainTimeoutMs,
    0,
    3_600_000,
    "Time that in-flight requests get to finish when a replica is replaced. Runs of a server with local state get at most half of PIERHEAD_DEPLOY_TIMEOUT_MS.",
  ),
  idleAfterMs: whole(
    "PIERHEAD_IDLE_AFTER_MS",
    idleAfterMs,
    1_000,
    86_400_000,
    "Time without requests after which a scale-to-zero deployment goes to sleep. Applies to a deployment from its next change or restart.",
  ),
  scaleDownAfterMs: whole(
    "PIERHEAD_SCALE_DOWN_AFTER_MS",
    scaleDownAfterMs,
    1_000,
    86_400_000,
    "Time for which fewer replicas must have been enough before a deployment scales down. It scales up at once.",
  ),
  resyncIntervalMs: whole(
    "PIERHEAD_RESYNC_INTERVAL_MS",
    resyncIntervalMs,
    100,
    3_600_000,
    "Interval of the full check for missed changes.",
  ),
  logRetentionDays: whole(
    "PIERHEAD_LOG_RETENTION_DAYS",
    logRetentionDays,
    1,
    3_650,
    "Retention of agent logs in days. Build logs are kept as long as their revision.",
  ),
  logArchiveDays: whole(
    "PIERHEAD_LOG_ARCHIVE_DAYS",
    0,
    0,
    36_500,
    "Age in days up to which agent logs that leave the database are kept as files, in the bucket or the data directory; 0: they are deleted.",
  ),
  eventRetentionDays: whole(
    "PIERHEAD_EVENT_RETENTION_DAYS",
    eventRetentionDays,
    1,
    3_650,
    "Retention of deployment and OAuth token events in days.",
  ),
  dataKeyDays: whole(
    "PIERHEAD_DATA_KEY_DAYS",
    90,
    0,
    36_500,
    "Age in days at which the data key that seals secrets is rotated and all secrets are sealed again; 0: never.",
  ),
  auditRetentionDays: whole(
    "PIERHEAD_AUDIT_RETENTION_DAYS",
    0,
    0,
    36_500,
    "Retention of the audit log in days; 0: unlimited.",
  ),
};
