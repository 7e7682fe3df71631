/** A version of a package in a lock file. */
export interface LockedPackage {
  name: string;
  version: string;
}

/**
 * Returns the text of a lock file without one version of a package, so that the package manager chooses that package again and
 * keeps all others.
 * @param file its name, which determines its form.
 * @returns null when the lock file does not contain that version, or has a form that cannot be edited. For Bun, see bun-lock.ts.
 */
export function withoutPackage(file: string, text: string, gone: LockedPackage): string | null {
  const edited = editors[file]?.(text, gone) ?? null;
  return edited === text ? null : edited;
}

const editors: Record<string, (text: string, gone: LockedPackage) => string | null> = {
  "package-lock.json": withoutNpm,
  "yarn.lock": withoutYarn,
  "pnpm-lock.yaml": withoutPnpm,
};

function withoutNpm(text: string, gone: LockedPackage): string | null {
  try {
    const lock = JSON.parse(text) as { packages?: Record<string, { version?: string; name?: string }> };
    if (lock.packages === undefined) return null;
    const entries = Object.entries(lock.packages);
    const kept = entries.filter(
      ([place, { name, version }]) =>
        version !== gone.version || (name ?? place.split("node_modules/").at(-1)) !== gone.name,
    );
    if (kept.length === entries.length) return null;
    // Version 2 repeats all packages for npm 6, which newer versions ignore.
    return JSON.stringify({ ...lock, packages: Object.fromEntries(kept), dependencies: undefined }, null, 2);
  } catch {
    return null;
  }
}

/** Yarn 1 and later versions have one block of lines for each version, with a blank line between. */
function withoutYarn(text: string, { name, version }: LockedPackage): string {
  return withoutBlocks(text, (names, lines) => {
    const isOfName = names.some((one) => one.startsWith(`${name}@`));
    return isOfName && lines.some((line) => /^ {2}version:? /.test(line) && line.includes(version));
  });
}

/** Returns the text of a yarn.lock without all versions of some packages, so that Yarn chooses them again. */
export const withoutNames = (text: string, packages: readonly string[]): string =>
  withoutBlocks(text, (names) => names.some((one) => packages.some((name) => one.startsWith(`${name}@`))));

function withoutBlocks(text: string, isGone: (names: string[], lines: string[]) => boolean): string {
  const isKept = (block: string) => {
    const lines = block.split("\n").filter((line) => !line.startsWith("#"));
    const [header = ""] = lines.filter((line) => line.trim() !== "");
    const names = header.replace(/:$/, "").split(/,\s*/);
    return !isGone(
      names.map((one) => one.replaceAll('"', "")),
      lines,
    );
  };
  return text.split(/\n\n/).filter(isKept).join("\n\n");
}

/** Removes the blocks of a package and its mentions as a direct dependency; pnpm repairs the other mentions. */
function withoutPnpm(text: string, { name, version }: LockedPackage): string {
  const key = new RegExp(`^ {2}['"]?/?${literal(name)}[@/]${literal(version)}(?:[(_][^'"]*)?['"]?:`);
  const direct = new RegExp(`^ {6}['"]?${literal(name)}['"]?:$`);
  const lines = text.split("\n");
  const kept: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const depth = key.test(line) ? 2 : direct.test(line) && isLocked(lines, at, version) ? 6 : null;
    if (depth === null) kept.push(line);
    else while (indentOf(lines[at + 1] ?? "") > depth) at++;
  }
  return kept.join("\n");
}

const isLocked = (lines: readonly string[], at: number, version: string) =>
  lines.slice(at + 1, at + 3).some((line) => line.trim().replaceAll(/['"]/g, "").startsWith(`version: ${version}`));

const indentOf = (line: string) => (line.trim() === "" ? -1 : line.length - line.trimStart().length);

const literal = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
