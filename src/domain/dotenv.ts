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
