import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { hasNodeMember, hasUvMember } from "../../domain/detection/workspaces.ts";

const nodeLocks = ["package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"];

/** Directories above a project in which its workspace is looked for. */
const levelsMax = 6;

/**
 * Returns the root of the workspace that has a project as a member: it has the lock file, and the other members that the project may
 * need. The search ends at the root of the git repository.
 * @returns null when there is none, or the project has a lock file of its own.
 */
export async function workspaceRoot(directory: string): Promise<string | null> {
  const read = (at: string, name: string) => readFile(path.join(at, name), "utf8").catch(() => "");
  const has = async (...names: string[]) =>
    (await Promise.all(names.map((name) => exists(path.join(directory, name))))).includes(true);
  const isNode = (await has("package.json")) && !(await has(...nodeLocks));
  const isPython = (await has("pyproject.toml")) && (!(await has("uv.lock")) || (await needsMembers(directory)));
  let at = directory;
  for (let level = 0; level < levelsMax && (isNode || isPython); level++) {
    if (path.dirname(at) === at || (await exists(path.join(at, ".git")))) return null;
    at = path.dirname(at);
    const member = path.relative(at, directory).split(path.sep).join("/");
    const [manifest, pnpmWorkspace] = [await read(at, "package.json"), await read(at, "pnpm-workspace.yaml")];
    if (isNode && hasNodeMember(member, { manifest, pnpmWorkspace })) return at;
    if (isPython && hasUvMember(member, await read(at, "pyproject.toml"))) return at;
  }
  return null;
}

/** Returns whether a Python project depends on other members of its workspace. Its own lock file does not contain them. */
const needsMembers = async (directory: string) =>
  /\bworkspace[ \t]*=[ \t]*true\b/.test(await readFile(path.join(directory, "pyproject.toml"), "utf8"));

const exists = (file: string) =>
  stat(file).then(
    () => true,
    () => false,
  );
