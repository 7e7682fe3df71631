import path from "node:path";
import { parseMasterKey, readOrCreateMasterKey } from "../store/secrets/master-key.ts";
import type { Config } from "./config.ts";
import { pathExists } from "./files.ts";

/**
 * Returns the master key, and the previous one during a rotation. The first start creates the key file. A restore requires an
 * existing one, because a new key could not open the backup.
 * @throws Error when a key is malformed or missing.
 */
export async function readMasterKeys(
  { masterKey, masterKeyFile, previousMasterKey, dataDir }: Config,
  { mayCreate }: { mayCreate: boolean },
): Promise<[Buffer, Buffer | null]> {
  const previous =
    previousMasterKey === undefined ? null : parseMasterKey(previousMasterKey, "PIERHEAD_PREVIOUS_MASTER_KEY");
  if (masterKey !== undefined) return [parseMasterKey(masterKey, "PIERHEAD_MASTER_KEY"), previous];
  const file = masterKeyFile ?? path.join(dataDir, "master.key");
  if (mayCreate || (await pathExists(file))) return [await readOrCreateMasterKey(file), previous];
  throw new Error(
    `the master key is missing: copy the key file of the server that made the backup to ${file}, or set PIERHEAD_MASTER_KEY`,
  );
}
