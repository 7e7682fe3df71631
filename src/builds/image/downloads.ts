import { plain, readingsOf } from "./base-names.ts";

/** Returns the first instruction of a Dockerfile that makes the engine download (`ADD` with a URL), or may do so; null: none does. */
export function findDownload(dockerfile: string): string | null {
  const found = readingsOf(dockerfile)
    .flat()
    .find((instruction) => sourcesOf(instruction).some(mayBeUrl));
  return found === undefined ? null : found.trim().slice(0, shownMax);
}

const shownMax = 200;

/** Returns the sources of an `ADD` instruction: all words but the last one, or all strings of its JSON form but the last one. */
function sourcesOf(instruction: string): string[] {
  const [, words = ""] = /^\s*(?:ONBUILD\s+)*ADD\s+((?:--\S+\s+)*\S.*)$/is.exec(instruction) ?? [];
  const given = words.replace(/^(?:--\S+\s+)*/, "");
  // The engine ignores what follows the array.
  const strings = given.startsWith("[") ? [...given.matchAll(/"(?:[^"\\]|\\.)*"/g)].map(([text]) => decoded(text)) : [];
  return [...strings.slice(0, -1), ...given.split(/\s+/).slice(0, -1)];
}

function decoded(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

/** Returns whether a source is a URL. The engine replaces variables first, which may come from its base image. */
function mayBeUrl(source: string): boolean {
  const text = plain(source).toLowerCase();
  const isUrl = /^https?:\/\//.test(text);
  const at = text.indexOf("$");
  if (isUrl || at === -1) return isUrl;
  return ["http://", "https://"].some((scheme) => scheme.startsWith(text.slice(0, at)));
}
