import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { sql } from "kysely";
import { mintApiKey } from "../auth/api-key.ts";
import { modes } from "../domain/mode.ts";
import { insertApiKey, revokeListenerKeys } from "../store/api-keys.ts";
import type { Db } from "../store/database.ts";
import { ensureBuiltinListener } from "../store/listeners.ts";
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
  /** Key of the built-in listener; a new one each start, known to nobody else. */
  listenerKey: string;
}

/** Makes what every installation has: one organization, one workspace, one admin key, the built-in listener. */
export async function bootstrap(db: Db, config: Config): Promise<Bootstrapped> {
  const { organizationId, workspaceId } = await ensureWorkspace(db, config);
  const listenerId = await ensureBuiltinListener(db, config.compute);
  const admin = await ensureAdminKey(db, config, organizationId, workspaceId);
  await revokeListenerKeys(db, listenerId);
  const listenerKey = mintApiKey();
  await insertApiKey(db, {
    ...listenerKey,
    organizationId,
    workspaceId: null,
    listenerId,
    name: "built-in listener",
    role: "listener",
  });
  return { organizationId, workspaceId, ...admin, listenerId, listenerKey: listenerKey.key };
}

export async function writeCredentials(config: Config, credentials: Credentials): Promise<void> {
  await writeDurably(credentialsPath(config), `${JSON.stringify(credentials, null, 2)}\n`, 0o600);
}

const credentialsPath = (config: Config) => path.join(config.dataDir, "credentials.json");

async function ensureWorkspace(db: Db, config: Config): Promise<{ organizationId: string; workspaceId: string }> {
  const found = await sql<{ organization_id: string; id: string }>`
    select id, organization_id from workspaces order by created_at, id limit 1`.execute(db.kysely);
  const first = found.rows[0];
  if (first !== undefined) return { organizationId: first.organization_id, workspaceId: first.id };
  const [organizationId, workspaceId] = [randomUUID(), randomUUID()];
  await sql`
    with organization as (
      insert into organizations (id, name, plan) values (${organizationId}, 'default', ${modes[config.mode].defaultPlan}))
    insert into workspaces (id, organization_id, name) values (${workspaceId}, ${organizationId}, 'default')`.execute(
    db.kysely,
  );
  return { organizationId, workspaceId };
}

/**
 * The key of `PIERHEAD_ADMIN_KEY` when there is one, else the one in credentials.json as long as it is valid, else a new
 * one: losing the file never locks the operator of the machine out.
 */
async function ensureAdminKey(db: Db, config: Config, organizationId: string, workspaceId: string) {
  const wanted = config.adminKey ?? (await readCredentials(config))?.api_key;
  const minted = mintApiKey(wanted);
  const isKnown =
    await sql`select 1 from api_keys where prefix = ${minted.prefix} and hash = ${minted.hash} and revoked_at is null`.execute(
      db.kysely,
    );
  if (wanted !== undefined && isKnown.rows.length > 0) return { adminKey: wanted, isNewKey: false };
  const made = wanted !== undefined && config.adminKey === undefined ? mintApiKey() : minted;
  await insertApiKey(db, { ...made, organizationId, workspaceId, listenerId: null, name: "admin", role: "admin" });
  return { adminKey: made.key, isNewKey: true };
}

async function readCredentials(config: Config): Promise<Credentials | undefined> {
  try {
    return JSON.parse(await readFile(credentialsPath(config), "utf8")) as Credentials;
  } catch {
    return undefined;
  }
}
