/** Files in which projects list the variables that they need. */
export const exampleNames = [
  ".env.example",
  ".env.sample",
  ".env.template",
  ".env.dist",
  "env.example",
  "example.env",
] as const;

/**
 * A name and a value. A quoted value may span several lines; outside of quotes a `#` starts a comment. In double quotes
 * `\"` is a quote if another one ends the line; otherwise it ends the value.
 */
const assignment =
  /^[ \t]*(?:export[ \t]+)?([^\s#=][^\n=]*)=[ \t]*(?:"((?:[^"\\]|\\[\s\S])*)"(?=[ \t]*(?:#|$))|"([^"]*)"|'([^']*)'|`([^`]*)`|([^\n#]*))/gm;

/**
 * Returns the variables of a `.env` file; the last one of a name counts. It parses like Node, with two exceptions: blanks
 * after `=` do not make the next line the value, and `\"` does not end one.
 */
export function parseDotenv(text: string): { name: string; value: string }[] {
  const found = new Map<string, string>();
  // Windows editors write a byte order mark, which would become an invisible part of the first name.
  const lines = text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
  for (const [, name = "", double, torn, single, back, bare = ""] of lines.matchAll(assignment)) {
    const expanded = (double?.replaceAll('\\"', '"') ?? torn)?.replaceAll("\\n", "\n");
    found.set(name.trim(), expanded ?? single ?? back ?? bare.trim());
  }
  return [...found].map(([name, value]) => ({ name, value }));
}

/** A line of a `.env` file that is no variable. */
export interface RefusedLine {
  /** Counted from 1. */
  line: number;
  text: string;
}

/** Returns the lines that are neither part of a variable nor blank nor a comment. */
export function refusedLines(text: string): RefusedLine[] {
  const all = text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
  const taken = [...all.matchAll(assignment)].map(({ index, 0: found }) => [index, index + found.length] as const);
  let at = 0;
  return all.split("\n").flatMap((line, index) => {
    const start = at;
    at += line.length + 1;
    const isTaken = taken.some(([from, to]) => start < to && start + line.length >= from);
    return isTaken || /^\s*(#|$)/.test(line) ? [] : [{ line: index + 1, text: line }];
  });
}

/** Returns variables as a `.env` file that {@link parseDotenv} reads back. A value that it cannot hold is left out. */
export function dotenvOf(variables: readonly { name: string; value: string }[]): string {
  const lines = variables.flatMap(({ name, value }) => {
    const forms = [value, `'${value}'`, `\`${value}\``, `"${value}"`].map((form) => `${name}=${form}`);
    const fits = forms.find((form) => {
      const [read, ...others] = parseDotenv(`${form}\nAFTER=1`);
      return read?.name === name && read.value === value && others.length === 1 && refusedLines(form).length === 0;
    });
    return fits === undefined ? [] : [fits];
  });
  return lines.map((line) => `${line}\n`).join("");
}
