/**
 * Returns the text of one table of a TOML file, such as `project`. Enough for the names that tools write; a file that needs
 * a full parser is read by the tool that installs it.
 */
export function tomlSection(text: string, name: string): string {
  const parts = text.split(/^[ \t]*\[([^[\]\n]+)\][ \t]*(?:#.*)?$/m);
  const at = parts.findIndex((part, index) => index % 2 === 1 && part.trim() === name);
  return at === -1 ? "" : (parts[at + 1] ?? "");
}

/** Returns the texts of all tables by their names. */
export function tomlTables(text: string): Map<string, string> {
  const parts = text.split(/^[ \t]*\[([^[\]\n]+)\][ \t]*(?:#.*)?$/m);
  const found = new Map<string, string>();
  for (let at = 1; at < parts.length; at += 2) {
    const name = (parts[at] ?? "").trim().replaceAll(/["']/g, "");
    if (!found.has(name)) found.set(name, parts[at + 1] ?? "");
  }
  return found;
}

/** Returns the keys of a table with the texts of their values. A table below it, `[name.key]`, counts as an inline table. */
export function tomlEntries(tables: ReadonlyMap<string, string>, name: string): [string, string][] {
  const own = (tables.get(name) ?? "").split("\n").flatMap((line): [string, string][] => {
    const [, key = "", value = ""] = /^[ \t]*["']?([\w.-]+)["']?[ \t]*=(.*)$/.exec(line) ?? [];
    return key === "" ? [] : [[key, value.trim()]];
  });
  const below = [...tables].flatMap(([other, text]): [string, string][] => {
    const key = other.startsWith(`${name}.`) ? other.slice(name.length + 1) : "";
    return !/^[\w-]+$/.test(key) ? [] : [[key, `{ ${text.trim().replaceAll("\n", ", ")} }`]];
  });
  return [...own, ...below];
}

/** Returns the names of the keys of a table. `python` is the interpreter, not a package. */
export function tomlKeys(section: string): string[] {
  const keys = [...section.matchAll(/^[ \t]*"?([\w.-]+)"?[ \t]*=/gm)].map((match) => match[1] ?? "");
  return keys.filter((key) => key !== "python");
}

export function tomlString(section: string, key: string): string | null {
  const match = new RegExp(`^[ \\t]*["']?${key}["']?[ \\t]*=[ \\t]*(?:"([^"\\n]*)"|'([^'\\n]*)')`, "m").exec(section);
  return match?.[1] ?? match?.[2] ?? null;
}

/** Returns the strings of a list, in which brackets may also stand in strings (`"fastapi[standard]"`) and comments. */
export function tomlList(section: string, key: string): string[] {
  const start = new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*\\[`, "m").exec(section);
  if (start === null) return [];
  const found: string[] = [];
  const token = /"([^"\n]*)"|'([^'\n]*)'|#.*|(\])|[^"'#\]]+/gy;
  token.lastIndex = start.index + start[0].length;
  for (let match = token.exec(section); match !== null && match[3] === undefined; match = token.exec(section)) {
    const item = match[1] ?? match[2];
    if (item !== undefined) found.push(item);
  }
  return found;
}

/** Returns a name as PEP 503 compares it. */
export const normalizedName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, "-");

/** Returns the name at the beginning of each requirement (PEP 508), without options, comments and addresses. */
export function requirementNames(lines: readonly string[]): string[] {
  return lines.flatMap((line) => {
    const [, name] = /^\s*([A-Za-z0-9][\w.-]*)\s*(?:$|[[<>=!~;@#\s])/.exec(line.trimEnd()) ?? [];
    return name === undefined ? [] : [name];
  });
}
