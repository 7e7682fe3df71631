import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { CliContext } from "../context.ts";
import { CliFailure } from "../failure.ts";
import { contextsFile } from "../login/contexts.ts";
import { withoutUser } from "../source/git-source.ts";

/** A project directory of this machine. */
interface Place {
  directory: string;
  /** Address of its git repository, and its directory there. Clones and work trees of one repository have the same. */
  repository?: string;
}

const placesMax = 1_000;
const gitTimeoutMs = 5_000;

/**
 * Refuses to replace an agent by the project of another directory only because both directories have the same name, such as
 * `backend`. A directory that was moved, and another clone of the same repository, are the same project.
 * @throws CliFailure that names both directories
 */
export async function refuseOtherProject(
  context: CliContext,
  { id, name }: Pick<Deployment, "id" | "name">,
  directory: string,
): Promise<void> {
  const before = readPlaces(context).get(id);
  if (before === undefined) return;
  const now = await placeOf(context, directory);
  if (now.directory === before.directory) return;
  if (now.repository !== undefined && now.repository === before.repository) return;
  const remains = await stat(before.directory).catch(() => undefined);
  if (remains === undefined) return;
  const from = path.relative(context.cwd, now.directory) || ".";
  throw new CliFailure(`${name} was deployed from ${before.directory}. ${now.directory} is another project.`, {
    hints: [
      `Deploy it as an agent of its own: pierhead deploy ${from} --name NAME`,
      `Replace that agent:               pierhead deploy ${from} --name ${name}`,
    ],
  });
}

/** Stores from which directory of this machine a deployment was deployed. Without a home directory to write to, nothing is stored. */
export async function rememberPlace(context: CliContext, id: string, directory: string): Promise<void> {
  const place = await placeOf(context, directory);
  const places = readPlaces(context);
  const before = places.get(id);
  if (before?.directory === place.directory && before.repository === place.repository) return;
  places.delete(id);
  places.set(id, place);
  try {
    writePlaces(placesFile(context), Object.fromEntries([...places].slice(-placesMax)));
  } catch {
    // The deploy has succeeded, and the next one only knows less.
  }
}

/** Writes the file in one step, because several deploys may run at once. */
function writePlaces(file: string, places: Record<string, Place>): void {
  const draft = `${file}.${process.pid}`;
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  try {
    writeFileSync(draft, `${JSON.stringify(places, null, 2)}\n`, { mode: 0o600, flag: "wx" });
    renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
}

const placesFile = (context: CliContext) => path.join(path.dirname(contextsFile(context)), "directories.json");

/** Returns the places by id of the deployment, the oldest first. A file that cannot be read holds none. */
function readPlaces(context: CliContext): Map<string, Place> {
  try {
    const stored: unknown = JSON.parse(readFileSync(placesFile(context), "utf8"));
    return new Map(Object.entries(stored as Record<string, Place>).filter(([, place]) => isPlace(place)));
  } catch {
    return new Map();
  }
}

const isPlace = (place: unknown): place is Place =>
  typeof place === "object" && place !== null && typeof (place as Place).directory === "string";

async function placeOf({ env, signal }: CliContext, directory: string): Promise<Place> {
  const real = await realpath(directory);
  const git = async (...args: string[]) => {
    const { stdout } = await promisify(execFile)("git", ["-C", real, ...args], { env, signal, timeout: gitTimeoutMs });
    return stdout.trim();
  };
  try {
    const origin = withoutUser(await git("config", "--get", "remote.origin.url"));
    return { directory: real, repository: `${origin} ${await git("rev-parse", "--show-prefix")}` };
  } catch {
    signal.throwIfAborted();
    return { directory: real }; // no repository, or one without an origin
  }
}
