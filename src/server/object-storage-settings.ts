import type { BucketSettings } from "../integrations/object-storage.ts";
import { optional, type Read, requireScheme, text, whole } from "./setting.ts";

export const objectStorageSettings = {
  s3Bucket: optional(
    "PIERHEAD_S3_BUCKET",
    "none",
    "Bucket for uploaded sources, build contexts and backups, for installations of several servers. Unset: the data directory keeps them.",
  ),
  s3Endpoint: optional(
    "PIERHEAD_S3_ENDPOINT",
    "Amazon S3 in the region",
    "Address of another service that speaks S3: `https://minio.example.org`. Builds read from it as well.",
  ),
  s3Region: text("PIERHEAD_S3_REGION", "us-east-1", "Region of the bucket."),
  s3Prefix: text("PIERHEAD_S3_PREFIX", "", "Prefix of all keys, for a bucket that others use as well: `pierhead/`."),
  s3AccessKeyId: optional("PIERHEAD_S3_ACCESS_KEY_ID", "none", "Access key for the bucket. Required with a bucket."),
  s3SecretAccessKey: optional(
    "PIERHEAD_S3_SECRET_ACCESS_KEY",
    "none",
    "Secret of that access key. It may list, read, write and delete in the bucket.",
  ),
  backupHours: whole(
    "PIERHEAD_BACKUP_HOURS",
    0,
    0,
    8_760,
    "Hours between backups of the installation into the bucket, which `pierhead restore bucket:latest` reads; 0: none.",
  ),
  backupsKept: whole("PIERHEAD_BACKUPS_KEPT", 14, 1, 900, "How many of these backups the bucket keeps."),
};

/** Returns the settings of the bucket, or null if there is none. @throws Error naming the variable. */
export function readBucket(read: Read<typeof objectStorageSettings>): BucketSettings | null {
  const { s3Bucket: bucket, s3Endpoint: endpoint, s3Region: region, s3AccessKeyId, s3SecretAccessKey } = read;
  requireScheme("PIERHEAD_S3_ENDPOINT", endpoint, ["http", "https"]);
  if (bucket === undefined && read.backupHours > 0) throw new Error("PIERHEAD_BACKUP_HOURS needs PIERHEAD_S3_BUCKET");
  if (bucket === undefined) return null;
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) {
    throw new Error(`PIERHEAD_S3_BUCKET must be the name of a bucket, such as pierhead-uploads, got "${bucket}"`);
  }
  if (s3AccessKeyId === undefined || s3SecretAccessKey === undefined) {
    throw new Error("PIERHEAD_S3_BUCKET needs PIERHEAD_S3_ACCESS_KEY_ID and PIERHEAD_S3_SECRET_ACCESS_KEY");
  }
  const prefix = read.s3Prefix.replace(/^\/+/, "");
  // Lists of keys are XML, and a part of dots would leave the bucket.
  if (!/^(?:[\w-][\w.-]*\/)*(?:[\w-][\w.-]*)?$/.test(prefix)) {
    throw new Error(
      `PIERHEAD_S3_PREFIX may have letters, digits, dots, hyphens and underscores between slashes, got "${prefix}"`,
    );
  }
  return {
    endpoint: endpoint ?? `https://s3.${region}.amazonaws.com`,
    ...{ region, bucket },
    prefix: prefix === "" || prefix.endsWith("/") ? prefix : `${prefix}/`,
    ...{ accessKeyId: s3AccessKeyId, secretAccessKey: s3SecretAccessKey },
  };
}
