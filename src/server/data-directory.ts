import { chmod, lstat, mkdir, readdir } from "node:fs/promises";
import path from "node:path";
import { describeError, type Logger } from "../telemetry/log.ts";

/** Permissions of everything in the data directory: it has secrets, sources and logs of all workspaces. */
const ownerOnly = 0o077;

/**
 * Creates the data directory, and takes the permissions of other users from what an earlier version, a restore or a copy has left
 * in it: from the directory, and from the files and directories directly in it. What is below cannot be reached then.
 * A volume that belongs to another user (Kubernetes' `fsGroup`) keeps its permissions, which the log reports.
 */
export async function openDataDirectory(directory: string, logger: Logger): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const names = await readdir(directory);
  const places = [directory, ...names.map((name) => path.join(directory, name))];
  const problems = await Promise.all(places.map(restrict));
  const error = problems.find((problem) => problem !== null);
  if (error !== undefined) logger.warn({ directory, error }, "data directory is open to other users");
}

/** Returns why the permissions could not be changed, or null. Links keep theirs: they may lead out of the directory. */
async function restrict(place: string): Promise<string | null> {
  try {
    const found = await lstat(place);
    const isOurs = found.isDirectory() || found.isFile();
    if (isOurs && (found.mode & ownerOnly) !== 0) await chmod(place, found.mode & 0o7700);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? null : describeError(error);
  }
}
