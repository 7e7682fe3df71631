import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import path from "node:path";
import { create } from "tar";
import { openDatabase } from "../../src/store/engine/database.ts";
import { ensureTemplate } from "../../src/store/engine/embedded/prepare-directory.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { createLogger } from "../../src/telemetry/log.ts";

const cacheDir = path.resolve("node_modules/.cache/pierhead");

/** Returns the directory with the archive of an empty database, as in the build. The first test process creates it. */
export async function emptyTemplateDirectory(): Promise<string> {
  await mkdir(cacheDir, { recursive: true });
  await ensureTemplate(cacheDir);
  return cacheDir;
}

/**
 * Returns the directory with the archive of a migrated database, which saves each test process initdb and 1.4 s of processor
 * time. Tests of the migrations start from the empty one.
 */
export async function templateDirectory(): Promise<string> {
  const archive = await ensureTemplate(await emptyTemplateDirectory());
  const directory = path.join(cacheDir, `migrated-${digestOfMigrations()}`);
  const file = path.join(directory, path.basename(archive));
  if (existsSync(file)) return directory;
  // Several processes may do this at once. Each renames a complete file to the final path.
  const draft = await mkdtemp(path.join(cacheDir, "draft-"));
  try {
    const db = await openDatabase({
      dataDir: draft,
      logger: createLogger("silent"),
      durable: false,
      templateDirectory: cacheDir,
    });
    await migrate(db).finally(() => db.close());
    await create({ file: `${draft}/archive`, gzip: true, cwd: path.join(draft, "database"), portable: true }, ["."]);
    await mkdir(directory, { recursive: true });
    await rename(`${draft}/archive`, file);
    return directory;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Returns a digest of the migrations, so that no process uses an outdated database. */
export function digestOfMigrations(): string {
  const hash = createHash("sha256");
  const directory = path.resolve("src/store/engine/migrations");
  for (const name of readdirSync(directory).sort()) hash.update(name).update(readFileSync(path.join(directory, name)));
  return hash.digest("hex").slice(0, 12);
}
