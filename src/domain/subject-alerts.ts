import type { SubjectAlertKind } from "../contract/alerts/alert.ts";
import { type FiringAlert, type RuleChanges, rulesByTenant } from "./alert-rules.ts";

/** An API key that is valid, or expired a short time ago. */
export interface ExpiringKey {
  /** Workspace that gets the alert. */
  tenantId: string;
  id: string;
  name: string;
  createdAt: Date;
  expiresAt: Date;
}

export interface Certificate {
  host: string;
  /** Workspace whose deployments have this address; absent: it is an address of the installation. */
  tenant_id?: string;
  /** ISO 8601. */
  expires_at: string;
}

/** What a server measured of itself. */
export interface ServerFacts {
  tenantId: string;
  /** Id of its data directory. */
  server: string;
  /** Name of its machine. */
  name: string;
  diskSizeBytes: number;
  diskFreeBytes: number;
  /** Whether the alert about its disk fires now. */
  isDiskFiring: boolean;
  certificates: readonly Certificate[];
}

export interface SubjectFacts {
  now: Date;
  keys: readonly ExpiringKey[];
  servers: readonly ServerFacts[];
}

const gib = 1024 ** 3;

/** A disk with more free space than this is not almost full, however large it is. */
const diskFreeMax = 10 * gib;

/** How far a disk must recover before its alert ends. Builds come and go, and each crossing would send a message. */
const recovery = { percent: 2, bytes: 2 * gib };

/** An alert about a key that has expired ends after so many days, unless an administrator revokes the key before. */
export const expiredKeyDays = 7;

const dayMs = 86_400_000;

/** Returns the rules about servers, certificates and keys that hold. */
export function firingSubjectAlerts(facts: SubjectFacts, { workspaces }: RuleChanges): FiringAlert[] {
  const { now, keys, servers } = facts;
  const rules = rulesByTenant(workspaces);
  const firing = (
    kind: SubjectAlertKind,
    { tenantId, ...subject }: { tenantId: string; subjectId: string; subject: string },
    messageFrom: (threshold: number) => string | null,
  ): FiringAlert[] => {
    const rule = rules(tenantId).find((one) => one.kind === kind);
    const message = rule?.enabled ? messageFrom(rule.threshold) : null;
    return message === null ? [] : [{ tenantId, deploymentId: null, ...subject, kind, message }];
  };
  const certificates = new Map(
    servers.flatMap(({ tenantId: home, certificates: own }) =>
      own.map(({ tenant_id: tenantId = home, ...one }) => [`${tenantId} ${one.host}`, { ...one, tenantId }] as const),
    ),
  );
  return [
    ...servers.flatMap((server) => {
      const subject = { tenantId: server.tenantId, subjectId: server.server, subject: server.name };
      return firing("disk_used", subject, (threshold) => diskMessage(server, threshold));
    }),
    ...[...certificates.values()].flatMap(({ tenantId, host, expires_at }) =>
      firing("certificate_expiry", { tenantId, subjectId: host, subject: host }, (days) => {
        const expiresAt = new Date(expires_at);
        if (daysBetween(now, expiresAt) > days) return null;
        return `The certificate of ${host} ${expiryText(now, expiresAt)}. Renew it where TLS ends, usually at the proxy.`;
      }),
    ),
    ...keys.flatMap(({ tenantId, id, name, createdAt, expiresAt }) =>
      firing("key_expiry", { tenantId, subjectId: id, subject: name }, (days) => {
        // A key for a short job is meant to expire.
        if (daysBetween(now, expiresAt) > days || daysBetween(createdAt, expiresAt) < 2 * days) return null;
        return `The API key ${name} (${id.slice(0, 8)}) ${expiryText(now, expiresAt)}. Create its successor with: pierhead admin keys create. Then revoke it.`;
      }),
    ),
  ];
}

const daysBetween = (from: Date, to: Date) => (to.getTime() - from.getTime()) / dayMs;

const expiryText = (now: Date, at: Date) =>
  `${at <= now ? "expired" : "expires"} on ${at.toISOString().slice(0, 16).replace("T", " ")} UTC`;

function diskMessage(
  { name, diskSizeBytes, diskFreeBytes, isDiskFiring }: ServerFacts,
  thresholdPercent: number,
): string | null {
  const usedPercent = (1 - diskFreeBytes / diskSizeBytes) * 100;
  const margin = isDiskFiring ? recovery : { percent: 0, bytes: 0 };
  if (!(usedPercent >= thresholdPercent - margin.percent) || diskFreeBytes >= diskFreeMax + margin.bytes) return null;
  const free = `${(diskFreeBytes / gib).toFixed(1)} of ${(diskSizeBytes / gib).toFixed(1)} GiB`;
  return `The disk of the data directory on ${name} is ${Math.floor(usedPercent)} % full: ${free} are free. Free some space, or enlarge the disk. A full disk stops uploads and builds first, then the database.`;
}
