/**
 * Parses a UUID in any of its forms: hyphenated, 32 hex digits, in braces, or as a URN. The error texts are those of
 * the parser behind the original API, because its clients print them (contract 1.5).
 */
export function readUuid(text: string): { uuid: string } | { error: string } {
  const { inner, offset } = unwrap(text);
  if (hyphenated.test(inner)) return { uuid: inner.toLowerCase() };
  if (offset === 0 && simple.test(text)) return { uuid: withHyphens(text.toLowerCase()) };
  return { error: reasonOf(text, inner, offset) };
}

const hyphenated = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const simple = /^[0-9a-f]{32}$/i;
const urn = "urn:uuid:";

function unwrap(text: string): { inner: string; offset: number } {
  if (text.length > 1 && text.startsWith("{") && text.endsWith("}")) return { inner: text.slice(1, -1), offset: 1 };
  return text.startsWith(urn) ? { inner: text.slice(urn.length), offset: urn.length } : { inner: text, offset: 0 };
}

function withHyphens(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

const groupStarts = [0, 9, 14, 19, 24];
const groupLengths = [8, 4, 4, 4, 12];

function reasonOf(text: string, inner: string, offset: number): string {
  const stranger = /[^0-9a-f-]/iu.exec(inner);
  if (stranger !== null) return `invalid character: found \`${stranger[0]}\` at ${stranger.index + offset + 1}`;

  const groups = countGroups(inner);
  if (groups === 1 && offset === 0) {
    return `invalid length: expected length 32 for simple format, found ${text.length}`;
  }
  if (groups !== 5) return `invalid group count: expected 5, found ${groups}`;

  // Groups start at fixed positions, so the position of the next hyphen reveals a group of the wrong length.
  const hyphens = [...inner.matchAll(/-/g)].map((match) => match.index);
  const wrong = hyphens.findIndex((index, group) => index !== (groupStarts[group + 1] ?? 0) - 1);
  const group = wrong < 0 ? 4 : wrong;
  // The original parser counts the last group within the whole text, including braces or the URN prefix.
  const end = wrong < 0 ? text.length : (hyphens[wrong] ?? 0);
  const found = end - (groupStarts[group] ?? 0);
  return `invalid group length in group ${group}: expected ${groupLengths[group]}, found ${found}`;
}

/** Counts without splitting, because a text of a million hyphens would become a list of a million groups. */
function countGroups(text: string): number {
  let count = 1;
  for (let at = text.indexOf("-"); at >= 0; at = text.indexOf("-", at + 1)) count += 1;
  return count;
}
