import { compareVersions, isInRange } from "../version-range.ts";
import { programOutput } from "../worker/program-output.ts";
import type { BuildContext } from "../worker/run-command.ts";
import type { LockedPackage } from "./lock-file.ts";

/** What a registry says about one version of a package. */
interface Published {
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
  bin?: Record<string, string> | string;
  "dist.integrity"?: string;
}

/** A line of a bun.lock with one version of a package. */
interface Entry {
  line: string;
  key: string;
  name: string;
  version: string;
  dependencies: Record<string, string>;
}

/**
 * Returns the text of a bun.lock with another version of a package that the registry does not have (any more). Bun ignores a lock file
 * with gaps, so an entry takes the place of the other.
 * @returns null when the lock file does not contain it, no other version fits, or that one needs packages that are not locked.
 */
export async function withOtherVersion(
  context: BuildContext,
  text: string,
  gone: LockedPackage,
): Promise<string | null> {
  const entries = text.split("\n").flatMap(entryOf);
  const [entry] = entries.filter(({ name, version }) => name === gone.name && version === gone.version);
  if (entry === undefined) return null;
  const ranges = rangesOf(text, gone);
  // Under an alias, for example.
  if (ranges.length === 0) return null;
  const versions = (await viewPackage(context, gone.name, ["versions"])) as string[] | string | null;
  const [version] = [versions ?? []]
    .flat()
    .filter((one) => one !== gone.version && /^[\d.]+$/.test(one) && ranges.every((range) => isInRange(one, range)))
    .sort((a, b) => compareVersions(b, a));
  if (version === undefined) return null;
  const fields = ["version", "dist.integrity", ...informationFields, "peerDependenciesMeta"];
  const found = (await viewPackage(context, `${gone.name}@${version}`, fields)) as Published | null;
  const integrity = found?.["dist.integrity"];
  if (found === null || integrity === undefined) return null;
  const information = informationOf(gone.name, found);
  const { optionalPeers = [], ...needs } = information;
  const peers = Object.entries(needs.peerDependencies ?? {}).filter(([name]) => !optionalPeers.includes(name));
  const needed = { ...needs.dependencies, ...needs.optionalDependencies, ...Object.fromEntries(peers) };
  if (!isLocked(needed, entry, entries)) return null;
  const key = JSON.stringify(entry.key);
  const other = `    ${key}: ${JSON.stringify([`${gone.name}@${version}`, "", information, integrity])},`;
  return text
    .split("\n")
    .map((line) => (line === entry.line ? other : line))
    .join("\n");
}

const informationFields = ["dependencies", "optionalDependencies", "peerDependencies", "bin"] as const;

/** Returns what a bun.lock says of a version. Bun links only the programs that stand in it. */
function informationOf(name: string, found: Published) {
  const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta = {}, bin } = found;
  const optionalPeers = Object.keys(peerDependenciesMeta).filter((one) => peerDependenciesMeta[one]?.optional === true);
  return {
    ...(dependencies && { dependencies }),
    ...(optionalDependencies && { optionalDependencies }),
    ...(peerDependencies && { peerDependencies }),
    ...(optionalPeers.length > 0 && { optionalPeers }),
    ...(bin && { bin: typeof bin === "string" ? { [name.replace(/^.*\//, "")]: bin } : bin }),
  };
}

function entryOf(line: string): Entry[] {
  const [, key = "", value = ""] = /^ {4}"([^"]+)": (\[.*\]),?$/.exec(line) ?? [];
  try {
    const [named, , information] = JSON.parse(value) as [string, unknown, { dependencies?: Record<string, string> }];
    const at = named.lastIndexOf("@");
    const { dependencies = {} } = information ?? {};
    return [{ line, key, name: named.slice(0, at), version: named.slice(at + 1), dependencies }];
  } catch {
    return []; // of another form
  }
}

/** Returns the ranges in which a lock file asks for a package, as far as this version is in them. */
function rangesOf(text: string, { name, version }: LockedPackage): string[] {
  const quoted = JSON.stringify(name).replaceAll(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
  const found = [...text.matchAll(new RegExp(`[{,\\s]${quoted}: "([^"\\n]{1,200})"`, "g"))];
  return found.map((match) => match[1] ?? "").filter((range) => isInRange(version, range));
}

/** Whether everything that a version needs is in the lock file, for the place of an entry. */
function isLocked(dependencies: Record<string, string>, { key }: Entry, entries: readonly Entry[]): boolean {
  const versions = new Map(entries.map((one) => [one.key, one.version]));
  return Object.entries(dependencies).every(([name, range]) => {
    const version = versions.get(`${key}/${name}`) ?? versions.get(name);
    return version !== undefined && isInRange(version, range);
  });
}

const viewTimeoutMs = 60_000;

async function viewPackage(context: BuildContext, name: string, fields: readonly string[]): Promise<unknown> {
  const { env, signal, sourceDir: cwd } = context;
  const argv = ["view", name, ...fields, "--json"];
  const { hasFailed, stdout } = await programOutput("npm", argv, { cwd, env, timeoutMs: viewTimeoutMs, signal });
  try {
    return hasFailed ? null : JSON.parse(stdout);
  } catch {
    return null;
  }
}
