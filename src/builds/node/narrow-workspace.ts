import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { hasNodeMember } from "../../domain/detection/workspaces.ts";

interface Manifest {
  name?: unknown;
  workspaces?: unknown;
  [kind: string]: unknown;
}

/**
 * Reduces a workspace to one member, the members on which it and the root depend, and the root, so that nothing is installed for
 * the others.
 * @param root directory of the workspace, relative to the root of the source, as `member`.
 * @returns the names of the members that were left out; empty: the workspace was left as it is.
 */
export async function narrowWorkspace(sourceDir: string, root: string, member: string): Promise<string[]> {
  const base = path.join(sourceDir, root);
  const wanted = path.posix.relative(root, path.posix.normalize(member));
  const manifest = parse(await textOf(path.join(base, "package.json")));
  const pnpmWorkspace = await textOf(path.join(base, "pnpm-workspace.yaml"));
  const members = await membersOf(base, { manifest: JSON.stringify(manifest), pnpmWorkspace });
  if (!members.has(wanted)) return [];
  const directories = new Map([...members].map(([directory, one]) => [one.name, directory]));
  const kept = new Set<string>();
  const keep = (one: Manifest) => {
    for (const name of dependenciesOf(one)) {
      const directory = directories.get(name);
      if (directory === undefined || kept.has(directory)) continue;
      kept.add(directory);
      keep(members.get(directory) ?? {});
    }
  };
  kept.add(wanted);
  keep(members.get(wanted) ?? {});
  keep(manifest);
  const omitted = [...members.keys()].filter((directory) => !kept.has(directory));
  if (omitted.length === 0) return [];
  const names = [...kept].sort();
  const { workspaces } = manifest;
  const pnpm = objectOf(manifest["pnpm"]);
  // The patches of the other members are left over, which pnpm takes for mistakes.
  const isPatched = pnpmWorkspace !== "" && "patchedDependencies" in pnpm;
  if (workspaces !== undefined || isPatched) {
    const packages = Array.isArray(workspaces) ? names : { ...objectOf(workspaces), packages: names };
    const narrowed = {
      ...manifest,
      ...(workspaces === undefined ? {} : { workspaces: packages }),
      ...(isPatched ? { pnpm: { ...pnpm, allowNonAppliedPatches: true, allowUnusedPatches: true } } : {}),
    };
    await writeFile(path.join(base, "package.json"), `${JSON.stringify(narrowed, null, 2)}\n`);
  }
  if (pnpmWorkspace !== "") {
    const list = `packages:\n${names.map((name) => `  - ${JSON.stringify(name)}\n`).join("")}`;
    const sections = pnpmWorkspace.split(/^(?=\w)/m).filter((section) => !section.startsWith("packages:"));
    const patches = /^patchedDependencies:/m.test(pnpmWorkspace) && !/^allowUnusedPatches:/m.test(pnpmWorkspace);
    const tolerance = patches ? "allowUnusedPatches: true\n" : "";
    await writeFile(path.join(base, "pnpm-workspace.yaml"), tolerance + list + sections.join(""));
  }
  return omitted;
}

const dependenciesOf = (manifest: Manifest) =>
  ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"].flatMap((kind) =>
    Object.keys(objectOf(manifest[kind])),
  );

const depthMax = 5;
const membersMax = 2_000;

/** Returns the manifests of the members, by their directories. */
async function membersOf(
  base: string,
  files: { manifest: string; pnpmWorkspace: string },
): Promise<Map<string, Manifest>> {
  const found = new Map<string, Manifest>();
  let level = [""];
  for (let depth = 0; depth < depthMax && level.length > 0 && found.size < membersMax; depth++) {
    const next: string[] = [];
    for (const directory of level) {
      const entries = await readdir(path.join(base, directory), { withFileTypes: true });
      if (directory !== "" && entries.some(({ name }) => name === "package.json") && hasNodeMember(directory, files))
        found.set(directory, parse(await textOf(path.join(base, directory, "package.json"))));
      for (const entry of entries)
        if (entry.isDirectory() && entry.name !== "node_modules" && !entry.name.startsWith("."))
          next.push(path.posix.join(directory, entry.name));
    }
    level = next;
  }
  return found;
}

const textOf = (file: string) => readFile(file, "utf8").catch(() => "");

function parse(text: string): Manifest {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return {}; // the package manager reports what is wrong with it
  }
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
