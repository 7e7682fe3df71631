import { readFile } from "node:fs/promises";
import path from "node:path";
import type { JavascriptProject } from "../detect/langgraph-config.ts";
import { isInRange } from "../version-range.ts";
import type { BuildLog } from "../worker/build-log.ts";
import { postgresServer } from "./agent-servers.ts";
import { lockOf } from "./install-command.ts";

const langgraph = "@langchain/langgraph";
const core = "@langchain/core";
const names = [langgraph, core] as const;
type Name = (typeof names)[number];

/**
 * Returns why the engine on PostgreSQL does not work with the packages that a project is going to install; null: it does. An image
 * needs the answer before it is built. With a lock file its versions decide, otherwise the ranges of package.json, from which a package
 * manager takes the newest version.
 * @param directory of the project, relative to the root of the source.
 */
export async function postgresMisfit(sourceDir: string, directory: string): Promise<string | null> {
  const root = await lockOf(sourceDir, directory);
  if (root === null) return null;
  const read = async (file: string) => (await readFile(path.join(sourceDir, file), "utf8")).replaceAll("\r\n", "\n");
  if (root.lockFile === null) return misfitOfManifest(await read(path.posix.join(root.directory, "package.json")));
  const member = path.posix.relative(root.directory, path.posix.normalize(directory));
  const file = path.posix.join(root.directory, root.lockFile);
  const locked = readers[root.lockFile]?.(await read(file), member) ?? null;
  if (locked === null) return `the versions of the packages in ${file} cannot be read before the build`;
  const [misfit] = names.flatMap((name) =>
    [...(locked[name] ?? [])]
      .filter((version) => !isInRange(version, neededOf(name)))
      .map((version) => `${file} has ${name} ${version}, and the engine needs ${neededOf(name)}`),
  );
  return misfit ?? null;
}

/** Returns a project on files instead of the default, and writes the reason to the build log. */
export function withoutDefault(project: JavascriptProject, because: string, log: BuildLog): JavascriptProject {
  sayOnFiles(because, log);
  return { ...project, engine: "file", engineBecause: "packages" };
}

export const sayOnFiles = (because: string, log: BuildLog): void => log.say(onFilesBecause(because));

export const onFilesBecause = (because: string): string =>
  `Engine: file, although the deployment has a PostgreSQL, because ${because}. To use it, update the packages and choose it: pierhead change NAME --engine postgres`;

/** The reason when the packages that were installed decide, and not what a lock file says of them. */
export const misfitOfInstalled = "its server does not work with the packages that were installed";

/** Without the pre-release that a server declares, because those count as their release. */
const neededOf = (name: Name) => (postgresServer.peers[name] ?? "*").replace(/-rc\.\d+$/, "");

/** Versions of each package that the server of a project could load. */
type Locked = Partial<Record<Name, ReadonlySet<string>>>;

/** bun.lockb is not a text. @returns null for a file that cannot be read. */
const readers: Record<string, (text: string, member: string) => Locked | null> = {
  "package-lock.json": readNpm,
  "yarn.lock": (text) => everyVersion((name) => yarnVersions(text, name)),
  "pnpm-lock.yaml": (text) =>
    everyVersion((name) => matches(text, new RegExp(`^ {2}['"]?/?${name}[@/](\\d+\\.[^\\s_('":]+)`, "gm"))),
  "bun.lock": (text) => everyVersion((name) => matches(text, new RegExp(`: \\["${name}@(\\d+\\.[^"]+)"`, "g"))),
};

/** These files do not say plainly which version a member of a workspace gets, so each version must fit. */
const everyVersion = (versionsOf: (name: Name) => ReadonlySet<string>): Locked => ({
  [langgraph]: versionsOf(langgraph),
  [core]: versionsOf(core),
});

const matches = (text: string, form: RegExp) => new Set([...text.matchAll(form)].map(([, version = ""]) => version));

function yarnVersions(text: string, name: Name): ReadonlySet<string> {
  const header = new RegExp(`(?:^|, )"?${name}@`);
  const blocks = text
    .split("\n\n")
    .filter((block) => block.split("\n").some((line) => /^\S.*:$/.test(line) && header.test(line)));
  return matches(blocks.join("\n"), /^ {2}version:? "?(\d+\.[^"\s]+)/gm);
}

interface NpmEntry {
  version?: string;
  link?: boolean;
  resolved?: string;
}

interface NpmLock {
  packages?: Record<string, NpmEntry>;
  /** Of version 1. */
  dependencies?: Record<string, NpmEntry>;
}

/** npm says where each package is, so the one that the server loads is found as Node finds it (langgraph-js-packages.ts). */
function readNpm(text: string, member: string): Locked | null {
  const lock = parsed<NpmLock>(text);
  if (lock === null) return null;
  const packages: Record<string, NpmEntry> =
    lock.packages ??
    Object.fromEntries(Object.entries(lock.dependencies ?? {}).map(([name, one]) => [`node_modules/${name}`, one]));
  const find = (name: string, from: string) => {
    for (let at = from; ; at = path.posix.dirname(at)) {
      const place = path.posix.join(at, "node_modules", name);
      const { link, resolved, ...entry } = packages[place] ?? {};
      const version = link === true ? packages[resolved ?? ""]?.version : entry.version;
      if (typeof version === "string") return { place, version };
      if (at === "." || at === "") return null;
    }
  };
  const graph = find(langgraph, member) ?? find(langgraph, find("langchain", member)?.place ?? member);
  const shared = find(core, graph?.place ?? member);
  const only = (one: { version: string } | null) => new Set(one === null ? [] : [one.version]);
  return { [langgraph]: only(graph), [core]: only(shared) };
}

interface Manifest {
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

function misfitOfManifest(text: string): string | null {
  const manifest = parsed<Manifest>(text) ?? {};
  const wanted: Record<string, string> = {
    ...manifest.peerDependencies,
    ...manifest.optionalDependencies,
    ...manifest.devDependencies,
    ...manifest.dependencies,
  };
  if (Object.keys(wanted).length === 0) return null;
  if (wanted[langgraph] === undefined)
    return `there is no lock file, and package.json does not name the version of ${langgraph}`;
  for (const name of names) {
    const range = wanted[name];
    if (range === undefined || allows(range, name)) continue;
    return `package.json has ${name} "${String(range).slice(0, rangeLengthMax)}", and the engine needs ${neededOf(name)}`;
  }
  return null;
}

/** Longer than any range that a person writes. */
const rangeLengthMax = 200;

/** Whether the newest version in a range fits: a fitting version is in the range, or the range begins with one. */
function allows(range: string, name: Name): boolean {
  if (typeof range !== "string" || range.length > rangeLengthMax) return false;
  if (range === "latest") return true;
  // Addresses, directories and names of other packages: their versions are known only after the installation.
  if (!/^[\s\d.x*^~<>=|v-]*(?:-[\w.]+)?[\s\d.x*^~<>=|v-]*$/i.test(range)) return false;
  const begins = range.split("||").map((part) => /\d+(?:\.\d+){0,2}/.exec(part)?.[0] ?? "");
  return [knownOf(name), ...begins].some(
    (version) => version !== "" && isInRange(version, range) && isInRange(version, neededOf(name)),
  );
}

/** A published version with which the engine works. */
function knownOf(name: Name): string {
  const { dependencies } = postgresServer.manifest as { dependencies: Record<Name, string> };
  return dependencies[name];
}

function parsed<T>(text: string): T | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as T) : null;
  } catch {
    return null;
  }
}
