import path from "node:path";
import { parseMasterKey, readOrCreateMasterKey } from "../store/secrets/master-key.ts";
import type { Config } from "./config.ts";
import { isThere } from "./files.ts";

/**
 * The master key, and the one of before while it is being replaced. The file of the first is made at the first start; before
 * a restore it has to be there, as one that is made now could not be the right one.
 * @throws Error when one is none, or not there.
 */
export async function readMasterKeys(
  { masterKey, masterKeyFile, previousMasterKey, dataDir }: Config,
  { mayMake }: { mayMake: boolean },
): Promise<[Buffer, Buffer | null]> {
  const previous =
    previousMasterKey === undefined ? null : parseMasterKey(previousMasterKey, "PIERHEAD_PREVIOUS_MASTER_KEY");
  if (masterKey !== undefined) return [parseMasterKey(masterKey, "PIERHEAD_MASTER_KEY"), previous];
  const file = masterKeyFile ?? path.join(dataDir, "master.key");
  if (mayMake || (await isThere(file))) return [await readOrCreateMasterKey(file), previous];
  throw new Error(
    `the master key is not there: copy the file of the server that was backed up to ${file}, or set PIERHEAD_MASTER_KEY`,
  );
}
