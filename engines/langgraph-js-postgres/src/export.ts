import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type EngineOptions, readSettings } from "./settings.ts";
import { loadStock } from "./stock.ts";
import { openDatabase } from "./store/database.ts";
import { exportFiles } from "./store/export-files.ts";
import type { Counts } from "./store/import-files.ts";

/**
 * Writes threads, runs, checkpoints, assistants and the store of a database as files with which the stock server goes on
 * without this package. Crons are left out, because that server has none.
 * @param directory its working directory, which must have no state yet.
 */
export async function exportState(directory: string, options: EngineOptions): Promise<Counts> {
  const settings = readSettings(options);
  const stock = await loadStock(settings.serverUrl);
  const database = openDatabase(settings, (error) => stock.logger.warn("connection lost", { error: error.message }));
  try {
    return await exportFiles(database, stock, directory);
  } finally {
    await database.close();
  }
}

// node export.js DIRECTORY [SCHEMA], with the address of the database in DATABASE_URI
const [, program = "", directory, schema = "langgraph"] = process.argv;
if (isProgram()) {
  // The stock server handles uncaught errors, and would end with 0.
  try {
    if (directory === undefined) throw new Error("give the directory for the files: node export.js DIRECTORY [SCHEMA]");
    const connectionString = process.env["DATABASE_URI"] ?? "";
    console.log(JSON.stringify(await exportState(directory, { connectionString, schema })));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}

/** Whether Node runs this file. A link to it, or to a directory above it, is not its real path. */
function isProgram(): boolean {
  try {
    return realpathSync(program) === realpathSync(fileURLToPath(import.meta.url));
  } catch {
    return false; // another program imports this file
  }
}
