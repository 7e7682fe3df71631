import { readdir, stat } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import { projectFileNames } from "../../domain/config-path.ts";
import { CliFailure } from "../failure.ts";
import { isWithin, repositoryOf } from "./repository.ts";

/**
 * Refuses to pack what a project should not need of its surroundings. Its author chooses the paths, and a person who deploys a cloned
 * repository would send their own files to its agent.
 *
 * @param packed directories that would be packed, with everything in them
 * @param named directories that the project names
 */
export async function refusePrivate(directory: string, packed: string[], named: readonly string[]): Promise<void> {
  for (const one of packed) if (one !== directory) await refuseHome(one);
  const repository = await repositoryOf(directory);
  for (const one of named) {
    const isOutside = !isWithin(directory, one) && (repository === null || !isWithin(repository, one));
    if (!isOutside) continue;
    if (isHidden(directory, one)) throw refusal(one, "Its name begins with a dot, as those of keys and settings do.");
    if (repository !== null && !(await looksLikePackage(one)))
      throw refusal(one, "It has no package.json, pyproject.toml or other file of a package.");
  }
}

const refusal = (one: string, because: string) =>
  new CliFailure(`The project names ${one}, which is outside of it and would be sent to the server.`, {
    because,
    hints: ["If the project needs it, move it into the repository of the project"],
  });

/** Returns whether a directory has a part with a dot at its start below the nearest directory that it shares with the project. */
function isHidden(directory: string, one: string): boolean {
  return path
    .relative(directory, one)
    .split(path.sep)
    .some((part) => part.startsWith(".") && part !== "..");
}

const packageFile =
  /^(?:tsconfig[\w.-]{0,40}\.json|(?:requirements|constraints)[\w.-]{0,40}\.txt|setup\.cfg|[\w.-]{1,80}\.[cm]?tsx?)$/;

async function looksLikePackage(directory: string): Promise<boolean> {
  const names = await readdir(directory).catch(() => []);
  return names.some((name) => packageFile.test(name) || (projectFileNames as readonly string[]).includes(name));
}

/**
 * Refuses to pack the home directory or one of its parents, which a path with one `..` too many would cause. That would send the
 * user's keys and settings. A git repository is allowed, because git limits the files; on many build machines it is the home directory.
 */
async function refuseHome(root: string): Promise<void> {
  const below = root.endsWith(path.sep) ? root : root + path.sep;
  if (!`${homedir()}${path.sep}`.startsWith(below) && root !== path.sep) return;
  if ((await stat(path.join(root, ".git")).catch(() => undefined)) !== undefined) return;
  throw new CliFailure(
    `All of ${root} would be packed, because it is the common parent directory of the config and its local paths.`,
    {
      hints: [
        "Check dependencies and source.root of the config, and --config",
        "Move the project and its local packages into one directory",
      ],
    },
  );
}
