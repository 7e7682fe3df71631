import type { Db } from "../store/engine/database.ts";
import { type ApiKeyRow, findApiKeyByPrefix, touchApiKey } from "../store/tenants/api-keys.ts";
import { findSession, type MembershipRow, type SessionRow } from "../store/tenants/sessions.ts";
import { findWorkspace, type WorkspaceRow } from "../store/tenants/tenants.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import { isSameHash, readKey } from "./api-key.ts";
import { Memo } from "./memo.ts";
import { readServiceKey, type ServiceClaims } from "./service-key.ts";

/** A revoked key is refused this much later at most. A busy key then costs one query every 2 s instead of one a request. */
const memoryMs = 2_000;

/** Rows remembered at once: 10,000 keys of about 1 KiB. */
const rowsMax = 10_000;

/** `last_used_at` is exact to this. */
const touchIntervalMs = 60_000;

/** Whose rights a request has: those of a key, or of a person in one of the places where that person is a member. */
export type Holder = ApiKeyRow | MembershipRow;

export const isMember = (holder: Holder): holder is MembershipRow => "email" in holder;

/** Finds valid keys and workspaces, and remembers them for a moment. */
export interface Keyring {
  /** undefined: unknown, wrong, expired or revoked; nobody is told which. */
  findKey(key: string): Promise<ApiKeyRow | undefined>;
  /**
   * Whom a session stands for: a key, or a person's memberships, the strongest first. []: there is no such session, it
   * is over, its key is no longer valid, or the person no longer a member.
   */
  findSession(token: string): Promise<readonly Holder[]>;
  /** Who signed this service key; undefined: nobody we know, or none are taken here. */
  readServiceKey(token: string): ServiceClaims | undefined;
  /** Whether this very key, or token of a session, was valid when it was last used here; asks nobody. */
  isFamiliar(key: string): boolean;
  findWorkspace(id: string): Promise<WorkspaceRow | undefined>;
  /**
   * Call it when a change of keys, sessions, members or workspaces is committed (`Db.afterCommit`), not before: in this
   * server the change holds at once.
   */
  forget(): void;
}

/** @param serviceSecret that services sign their keys with; null: there are none. */
export function createKeyring(db: Db, logger: Logger, serviceSecret: string | null = null): Keyring {
  const keys = new Memo<ApiKeyRow>({ memoryMs, rowsMax, read: (prefix) => findApiKeyByPrefix(db, prefix) });
  const readSession = (digest: string) => findSession(db, Buffer.from(digest, "hex"));
  const sessions = new Memo<SessionRow>({ memoryMs, rowsMax, read: readSession });
  const workspaces = new Memo<WorkspaceRow>({ memoryMs, rowsMax, read: (id) => findWorkspace(db, id) });
  const touched = new WeakSet<ApiKeyRow>();
  const familiar = new Map<string, Buffer>();
  const hasExpired = (row: ApiKeyRow) => row.expires_at !== null && row.expires_at <= db.now();

  function note(prefix: string, hash: Buffer): void {
    if (familiar.has(prefix)) return;
    if (familiar.size >= rowsMax) familiar.delete(familiar.keys().next().value as string);
    familiar.set(prefix, hash);
  }

  function touch(row: ApiKeyRow): void {
    const isRecent = row.last_used_at !== null && db.now().getTime() - row.last_used_at.getTime() < touchIntervalMs;
    if (isRecent || touched.has(row)) return;
    touched.add(row);
    touchApiKey(db, row.id).catch((error: unknown) => {
      logger.debug({ key_id: row.id, error: describeError(error) }, "the use of a key could not be noted");
    });
  }

  return {
    async findKey(key) {
      const { prefix, hash } = readKey(key);
      const row = await keys.find(prefix);
      if (row === undefined || row.revoked_at !== null || hasExpired(row)) {
        familiar.delete(prefix);
        return undefined;
      }
      if (!isSameHash(hash, row.hash)) return undefined;
      note(prefix, row.hash);
      touch(row);
      return row;
    },
    async findSession(token) {
      const { prefix, hash } = readKey(token);
      const row = await sessions.find(hash.toString("hex"));
      const isOver = row === undefined || row.expires_at <= db.now();
      const holders: readonly Holder[] = isOver ? [] : row.holders;
      const valid = holders.filter((one) => isMember(one) || (one.revoked_at === null && !hasExpired(one)));
      if (valid.length === 0) {
        familiar.delete(prefix);
        return [];
      }
      note(prefix, hash);
      for (const one of valid) if (!isMember(one)) touch(one);
      return valid;
    },
    readServiceKey: (token) =>
      serviceSecret === null ? undefined : readServiceKey(token, serviceSecret, db.now().getTime()),
    isFamiliar(key) {
      const { prefix, hash } = readKey(key);
      const known = familiar.get(prefix);
      return known !== undefined && isSameHash(hash, known);
    },
    findWorkspace: (id) => workspaces.find(id),
    forget() {
      keys.forget();
      sessions.forget();
      workspaces.forget();
    },
  };
}
