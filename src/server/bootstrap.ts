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

/** Contents of `credentials.json` (mode 0600), from which the CLI on the same machine reads its address and key. */
export interface Credentials {
  url: string;
  workspace_id: string;
  api_key: string;
  /** Process id of the server that wrote the file. Distinguishes a stale file from a live one. */
  pid: number;
}

export interface Bootstrapped {
  organizationId: string;
  workspaceId: string;
  adminKey: string;
  /** True when this start created the key. It is shown only once. */
  isNewKey: boolean;
  listenerId: string;
  /** Key of the built-in listener. */
  listenerKey: string;
}

/**
 * Ensures what every installation needs: one organization, one workspace, one admin key and the built-in listener. A table
 * lock serializes servers that start at the same time, so the second one finds what the first one created.
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

/** Returns the key of the built-in listener: `PIERHEAD_LISTENER_KEY` when it is set, otherwise a new key for each start. */
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
    throw new Error("the key in PIERHEAD_LISTENER_KEY was revoked or belongs to another owner: choose a new key");
  }
  return key;
}

export async function writeCredentials(config: Config, credentials: Credentials): Promise<void> {
  await writeDurably(credentialsPath(config), `${JSON.stringify(credentials, null, 2)}\n`, 0o600);
}

const credentialsPath = (config: Config) => path.join(config.dataDir, "credentials.json");

/** Returns the oldest workspace and its organization. Creates them when there are none. */
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
 * Returns the operator's admin key: the key in `PIERHEAD_ADMIN_KEY` if it is set, else the key in credentials.json while it is
 * valid, else a new key. Losing the file therefore never locks out the operator of the machine.
 * @throws Error when the key in `PIERHEAD_ADMIN_KEY` was revoked, has expired, or is not an admin key.
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
      "the key in PIERHEAD_ADMIN_KEY was revoked, has expired, or is not an admin key: set another key, or unset the variable to generate one",
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
