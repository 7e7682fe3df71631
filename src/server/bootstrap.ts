import { readFile } from "node:fs/promises";
import path from "node:path";
import { mintApiKey } from "../auth/api-key.ts";
import { modes } from "../domain/mode.ts";
import { ensureBuiltinListener } from "../store/data-plane/listener-sessions.ts";
import type { Db } from "../store/engine/database.ts";
import {
  type ApiKeyRow,
  createApiKey,
  findApiKeyByPrefix,
  insertApiKey,
  makeOperator,
  revokeListenerKeys,
} from "../store/tenants/api-keys.ts";
import {
  createOrganization,
  createWorkspace,
  findOldestWorkspace,
  lockOrganizations,
} from "../store/tenants/tenants.ts";
import type { Config } from "./config.ts";
import { writeDurably } from "./files.ts";

/** What a client of this machine needs; kept in `credentials.json` (mode 0600), which the CLI reads. */
export interface Credentials {
  url: string;
  workspace_id: string;
  api_key: string;
  /** Of the server that wrote it: tells a left-over file from a live one. */
  pid: number;
}

export interface Bootstrapped {
  organizationId: string;
  workspaceId: string;
  adminKey: string;
  /** True when the key was made just now: it is shown once. */
  isNewKey: boolean;
  listenerId: string;
  /** Key of the built-in listener. */
  listenerKey: string;
}

/**
 * Makes what every installation has: one organization, one workspace, one admin key, the built-in listener. Servers that
 * start at the same time do so one after the other: the second finds what the first has made.
 */
export async function bootstrap(db: Db, config: Config): Promise<Bootstrapped> {
  const wantedKey = config.adminKey ?? (await readCredentials(config))?.api_key;
  return db.atomically(async () => {
    await lockOrganizations(db);
    const { organizationId, workspaceId } = await ensureWorkspace(db, config);
    const listenerId = await ensureBuiltinListener(db, config.compute);
    const admin = await ensureAdminKey(db, config, { wantedKey, organizationId, workspaceId });
    const listenerKey = await replaceListenerKey(db, config, { organizationId, listenerId });
    return { organizationId, ...admin, listenerId, listenerKey };
  });
}

/** A new key each start, or the one that the operator gave to a listener beside this server. */
async function replaceListenerKey(
  db: Db,
  config: Config,
  { organizationId, listenerId }: { organizationId: string; listenerId: string },
): Promise<string> {
  const { key, ...minted } = mintApiKey(config.listenerKey);
  const known = config.listenerKey === undefined ? undefined : await findApiKeyByPrefix(db, minted.prefix);
  if (known === undefined) {
    await revokeListenerKeys(db, listenerId);
    const about = { workspaceId: null, name: "built-in listener", role: "listener" } as const;
    await insertApiKey(db, { ...minted, ...about, organizationId, listenerId });
  } else if (!known.hash.equals(minted.hash) || known.revoked_at !== null || known.listener_id !== listenerId) {
    throw new Error("the key in PIERHEAD_LISTENER_KEY was revoked or belongs to somebody else: make up another one");
  }
  return key;
}

export async function writeCredentials(config: Config, credentials: Credentials): Promise<void> {
  await writeDurably(credentialsPath(config), `${JSON.stringify(credentials, null, 2)}\n`, 0o600);
}

const credentialsPath = (config: Config) => path.join(config.dataDir, "credentials.json");

/** The oldest workspace. */
async function ensureWorkspace(db: Db, config: Config): Promise<{ organizationId: string; workspaceId: string }> {
  return db.transaction(async (trx) => {
    const found = await findOldestWorkspace(trx);
    const organizationId =
      found?.organizationId ??
      (await createOrganization(trx, { name: "default", plan: modes[config.mode].defaultPlan }));
    const workspaceId = found?.workspaceId ?? (await createWorkspace(trx, { organizationId, name: "default" }));
    return { organizationId, workspaceId };
  });
}

/**
 * The key of `PIERHEAD_ADMIN_KEY` when there is one, else the one in credentials.json as long as it is valid, else a new
 * one: losing the file never locks the operator of the machine out. It is an operator's key.
 * @throws Error when the key of `PIERHEAD_ADMIN_KEY` was revoked or is no admin's.
 */
async function ensureAdminKey(
  db: Db,
  config: Config,
  about: { wantedKey: string | undefined; organizationId: string; workspaceId: string },
) {
  const { wantedKey: wanted, organizationId, workspaceId } = about;
  const minted = mintApiKey(wanted);
  const found = await findApiKeyByPrefix(db, minted.prefix);
  if (wanted !== undefined && found !== undefined && isUsable(found, minted.hash, db.now())) {
    await makeOperator(db, found);
    return { adminKey: wanted, isNewKey: false, workspaceId: found.workspace_id ?? workspaceId };
  }
  if (config.adminKey !== undefined && found !== undefined) {
    throw new Error(
      "the key in PIERHEAD_ADMIN_KEY was revoked, has expired, or is no admin's: give another one, or none to have one made",
    );
  }
  const made = config.adminKey === undefined ? mintApiKey() : minted;
  const key = {
    organizationId,
    workspaceId,
    listenerId: null,
    name: "admin",
    role: "admin",
    isOperator: true,
  } as const;
  await createApiKey(db, { ...key, prefix: made.prefix, hash: made.hash }, "system");
  return { adminKey: made.key, isNewKey: true, workspaceId };
}

function isUsable(known: ApiKeyRow, hash: Buffer, now: Date): boolean {
  const hasExpired = known.expires_at !== null && known.expires_at <= now;
  return known.hash.equals(hash) && known.revoked_at === null && !hasExpired && known.role === "admin";
}

async function readCredentials(config: Config): Promise<Credentials | undefined> {
  try {
    return JSON.parse(await readFile(credentialsPath(config), "utf8")) as Credentials;
  } catch {
    return undefined;
  }
}
