/**
 * Returns the text of one table of a TOML file, such as `project`. Enough for the names that tools write; a file that needs
 * a full parser is read by the tool that installs it.
 */
export function tomlSection(text: string, name: string): string {
  const parts = text.split(/^[ \t]*\[([^[\]\n]+)\][ \t]*(?:#.*)?$/m);
  const at = parts.findIndex((part, index) => index % 2 === 1 && part.trim() === name);
  return at === -1 ? "" : (parts[at + 1] ?? "");
}

/** The texts of tables by their names, and the names of those below each one. */
export interface TomlTables {
  texts: ReadonlyMap<string, string>;
  below: ReadonlyMap<string, readonly string[]>;
}

/** Returns all tables of a file. A dotted key belongs to the table that it names: `a.b = 1` is `b` of a table `a`. */
export function tomlTables(text: string): TomlTables {
  const texts = new Map([...linesOfTables(text)].map(([name, lines]) => [name, lines.join("\n")]));
  const below = new Map<string, string[]>();
  for (const name of texts.keys()) {
    const above = name.slice(0, Math.max(0, name.lastIndexOf(".")));
    const others = below.get(above);
    if (others === undefined) below.set(above, [name]);
    else others.push(name);
  }
  return { texts, below };
}

function linesOfTables(text: string): Map<string, string[]> {
  const [start = "", ...parts] = text.split(/^[ \t]*\[([^[\]\n]+)\][ \t]*(?:#.*)?$/m);
  const lines = new Map<string, string[]>();
  const headers = new Set<string>();
  const add = (header: string, part: string) => {
    if (headers.has(header)) return;
    headers.add(header);
    // The lines after a key belong to its value.
    let name = header;
    for (const line of part.split("\n")) {
      const [, above, key] = dottedKey.exec(line) ?? [];
      if (anyKey.test(line)) name = above === undefined ? header : inTable(header, above);
      const own = lines.get(name);
      if (own === undefined) lines.set(name, [key ?? line]);
      else own.push(key ?? line);
    }
  };
  add("", start);
  for (let at = 0; at < parts.length; at += 2)
    add((parts[at] ?? "").trim().replaceAll(/["']/g, ""), parts[at + 1] ?? "");
  return lines;
}

const anyKey = /^[ \t]*(?:[\w.-]+|"[^"\n]*"|'[^'\n]*')[ \t]*=/;

/** The tables and the rest of a line such as `web.version = "1"`. */
const dottedKey = /^[ \t]*([\w-]+(?:\.[\w-]+)*)\.([\w-]+[ \t]*=.*)$/;

const inTable = (table: string, name: string) => (table === "" ? name : `${table}.${name}`);

/** Returns the keys of a table with the texts of their values. A table below it, `[name.key]`, counts as an inline table. */
export function tomlEntries({ texts, below }: TomlTables, name: string): [string, string][] {
  const own = (texts.get(name) ?? "").split("\n").flatMap((line): [string, string][] => {
    const [, key = "", value = ""] = /^[ \t]*["']?([\w.-]+)["']?[ \t]*=(.*)$/.exec(line) ?? [];
    return key === "" ? [] : [[key, value.trim()]];
  });
  const others = (below.get(name) ?? []).flatMap((other): [string, string][] => {
    const key = other.slice(name.length + 1);
    return !/^[\w-]+$/.test(key) ? [] : [[key, `{ ${(texts.get(other) ?? "").trim().replaceAll("\n", ", ")} }`]];
  });
  return [...own, ...others];
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
