import { randomBytes } from "node:crypto";
import type { ApiServer } from "../api/api-server.ts";
import type { Manifest } from "../api/manifest.ts";
import { labelsOf, secretNameOf } from "../render/names.ts";
import { needsRedis, selectorText } from "../render/render.ts";
import { type DatabaseMode, ForbiddenWorkload, type Workload } from "../workload.ts";

/**
 * Creates the Secrets that are missing; existing ones are never changed. A new Redis Secret has another password than the
 * running Redis, which has no data to keep, so that Redis is created again, too.
 */
export async function createSecrets(
  api: ApiServer,
  workload: Workload,
  database: DatabaseMode,
  owned: (manifest: Manifest) => Manifest,
  signal: AbortSignal,
): Promise<void> {
  const { slug, cluster, secrets } = workload;
  const secret = (name: string, stringData: Record<string, string>): Manifest => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace: cluster.namespace as string, labels: labelsOf(workload, "server") },
    type: "Opaque",
    immutable: true,
    stringData,
  });
  const password = randomBytes(24).toString("base64url");
  const made = [secret(secretNameOf(workload), secrets)];
  if (database === "plain") {
    const host = `${slug}-postgres`;
    const uri = `postgresql://agent:${password}@${host}:5432/agent`;
    const credentials = secret(host, { password, username: "agent", uri });
    await refuseLostPassword(api, workload, credentials, signal);
    made.push(credentials);
  }
  for (const one of made) await api.create(owned(one), signal);
  if (!needsRedis(workload)) return;
  const redis = secret(`${slug}-redis`, { password, uri: `redis://:${password}@${slug}-redis:6379` });
  if (!(await api.create(redis, signal, { dryRun: true }))) return;
  await api.remove("Deployment", redis.metadata, {}, signal);
  await api.create(owned(redis), signal);
}

/** Prevents a new password for an existing database disk, which only accepts its first one. @throws ForbiddenWorkload */
async function refuseLostPassword(
  api: ApiServer,
  { deploymentId }: Workload,
  secret: Manifest,
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace } = secret.metadata;
  const query = { labelSelector: selectorText(deploymentId) };
  if ((await api.list("PersistentVolumeClaim", namespace, query, signal)).items.length === 0) return;
  // A dry run of a create tells whether the Secret exists, because we may not read it.
  if (!(await api.create(secret, signal, { dryRun: true }))) return;
  throw new ForbiddenWorkload(
    `The Secret ${name} is gone, and with it the password of the database. Restore the Secret, or set another password in the ` +
      "database and create the Secret with it (docs/guides/kubernetes.md).",
  );
}
