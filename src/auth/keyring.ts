import type { Db } from "../store/engine/database.ts";
import { type ApiKeyRow, findApiKeyByPrefix, touchApiKey } from "../store/tenants/api-keys.ts";
import { findSession, type MembershipRow, type SessionRow } from "../store/tenants/sessions.ts";
import { findWorkspace, type WorkspaceRow } from "../store/tenants/tenants.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import { digestOf, isSameHash, readKey } from "./api-key.ts";
import type { CallerAssertions, CallerClaims } from "./caller-assertion.ts";
import { Memo } from "./memo.ts";
import { readServiceKey, type ServiceClaims } from "./service-key.ts";

/** Cache lifetime: a revoked key is refused after 2 s at the latest, and a busy key costs one query every 2 s. */
const cacheMs = 2_000;

/** Maximum number of cached rows: 10,000 keys of about 1 KiB. */
const rowsMax = 10_000;

/** Precision of `last_used_at`. */
const touchIntervalMs = 60_000;

/** Source of a request's permissions: a key, or one of a person's memberships. */
export type Holder = ApiKeyRow | MembershipRow;

export const isMember = (holder: Holder): holder is MembershipRow => "email" in holder;

/** Finds valid keys, sessions and workspaces, and caches them for two seconds. */
export interface Keyring {
  /** Returns undefined for a key that is unknown, wrong, expired or revoked. The caller cannot see which. */
  findKey(key: string): Promise<ApiKeyRow | undefined>;
  /**
   * Returns the holders of a session: a key, or a person's memberships, the default one first. Returns [] if the session does
   * not exist or has expired, its key is no longer valid, or the person is no longer a member.
   */
  findSession(token: string): Promise<readonly Holder[]>;
  /** Returns the claims of a service key, or undefined if the signature is unknown or this server accepts none. */
  readServiceKey(token: string): ServiceClaims | undefined;
  /** Returns the claims of an assertion that this installation signed, or undefined for every other text. */
  readAssertion(token: string): CallerClaims | undefined;
  findWorkspace(id: string): Promise<WorkspaceRow | undefined>;
  /**
   * Clears the cache. Call it after a change of keys, sessions, members or workspaces is committed (`Db.afterCommit`), not
   * before. The change then takes effect in this server at once.
   */
  forget(): void;
}

/**
 * @param serviceSecret secret with which services sign their keys; null: service keys are not accepted.
 * @param assertions reads what this installation signed about callers of agents; null: assertions are not accepted.
 */
export function createKeyring(
  db: Db,
  logger: Logger,
  serviceSecret: string | null = null,
  assertions: CallerAssertions | null = null,
): Keyring {
  const keys = new Memo<ApiKeyRow>({ memoryMs: cacheMs, rowsMax, read: (prefix) => findApiKeyByPrefix(db, prefix) });
  const readSession = (digest: string) => findSession(db, Buffer.from(digest, "hex"));
  const sessions = new Memo<SessionRow>({ memoryMs: cacheMs, rowsMax, read: readSession });
  const workspaces = new Memo<WorkspaceRow>({ memoryMs: cacheMs, rowsMax, read: (id) => findWorkspace(db, id) });
  const touched = new WeakSet<ApiKeyRow>();
  const hasExpired = (row: ApiKeyRow) => row.expires_at !== null && row.expires_at <= db.now();

  function touch(row: ApiKeyRow): void {
    const isRecent = row.last_used_at !== null && db.now().getTime() - row.last_used_at.getTime() < touchIntervalMs;
    if ((isRecent && row.expires_at_once_used === null) || touched.has(row)) return;
    touched.add(row);
    touchApiKey(db, row.id).catch((error: unknown) => {
      logger.debug({ key_id: row.id, error: describeError(error) }, "could not record the use of a key");
    });
  }

  return {
    async findKey(key) {
      const { prefix, hash } = readKey(key);
      const row = await keys.find(prefix);
      if (row === undefined || row.revoked_at !== null || hasExpired(row)) return undefined;
      if (!isSameHash(hash, row.hash)) return undefined;
      touch(row);
      return row;
    },
    async findSession(token) {
      const row = await sessions.find(digestOf(token).toString("hex"));
      const isOver = row === undefined || row.expires_at <= db.now();
      const holders: readonly Holder[] = isOver ? [] : row.holders;
      const valid = holders.filter((one) => isMember(one) || (one.revoked_at === null && !hasExpired(one)));
      for (const one of valid) if (!isMember(one)) touch(one);
      return valid;
    },
    readServiceKey: (token) =>
      serviceSecret === null ? undefined : readServiceKey(token, serviceSecret, db.now().getTime()),
    readAssertion: (token) => assertions?.read(token),
    findWorkspace: (id) => workspaces.find(id),
    forget() {
      keys.forget();
      sessions.forget();
      workspaces.forget();
    },
  };
}
