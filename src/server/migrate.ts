import { mkdir } from "node:fs/promises";
import { openDatabase } from "../store/engine/database.ts";
import { migrate } from "../store/engine/migrate.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Config } from "./config.ts";

/** Applies pending migrations. @returns their names. @throws Error when the database is unreachable or unusable. */
export async function migrateDatabase(config: Config, { logger }: { logger: Logger }): Promise<string[]> {
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
  const { databaseUrl, dataDir, databaseTemplateDir: templateDirectory } = config;
  const db = await openDatabase({ databaseUrl, dataDir, logger, ...(templateDirectory && { templateDirectory }) });
  try {
    return await migrate(db, { logger });
  } finally {
    await db.close();
  }
}
