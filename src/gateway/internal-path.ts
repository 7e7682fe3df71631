/** Maximum rounds of percent-decoding. A path that still changes after them was written to deceive. */
const decodeRoundsMax = 8;

/**
 * Whether any plausible server could read this path as `/internal` or something below it. Agent servers serve such paths
 * without authentication (one of them deletes all threads). Each framework normalizes paths in its own way, so every
 * reading counts: percent-decoding of any depth, overlong UTF-8, `%u` escapes, compatibility forms of letters, upper case,
 * backslashes, `;params`, empty and dot segments. Refusing too much is harmless: a plain path is refused only when its
 * first segment is `internal`.
 */
export function readsAsInternal(path: string): boolean {
  const raw = path.split("?", 1)[0] ?? "";
  if (isPlain(raw)) return false;
  let reading = raw;
  for (let round = 0; round <= decodeRoundsMax; round += 1) {
    if (reachesInternal(reading)) return true;
    const decoded = decodeOnce(reading);
    if (decoded === reading) return false;
    reading = decoded;
  }
  return true;
}

/** Fast path for nearly every request: nothing is encoded, and the word does not occur. */
function isPlain(path: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range is plain ASCII.
  return !/%|internal|[^\x00-\x7f]/i.test(path);
}

/**
 * Whether a segment reads as `internal` and is the first one, or any segment does in a path with empty or dot segments or
 * backslashes, where the segments before it may vanish (`/x/../internal`, and `//x/internal`, where URL parsers take `x`
 * for a host).
 */
function reachesInternal(reading: string): boolean {
  const segments = reading.replaceAll("\\", "/").split("/").slice(1).map(plainSegment);
  const position = segments.indexOf("internal");
  if (position === -1) return false;
  if (position === 0) return true;
  return reading.includes("\\") || segments.slice(0, -1).some(isVanishing) || isDots(segments.at(-1) ?? "");
}

const isDots = (segment: string) => segment === "." || segment === "..";
const isVanishing = (segment: string) => segment === "" || isDots(segment);

/** Returns a segment as the most lenient server reads it: without parameters, control characters and blanks, in lower case. */
function plainSegment(segment: string): string {
  const folded = segment.normalize("NFKC").toLowerCase().replaceAll("ı", "i").replaceAll("\u0307", "");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: C strings end at NUL.
  const bare = (folded.split(/[;?#\x00]/, 1)[0] ?? "").replace(/[\s\p{Cc}\p{Cf}]/gu, "");
  // Some file systems drop trailing dots, so `internal.` is `internal`. `..` must stay. The lookbehind keeps the match linear.
  return isDots(bare) ? bare : bare.replace(/(?<!\.)\.+$/, "");
}

/** Decodes one round of percent-encoding, byte by byte. Text that is no escape stays. */
function decodeOnce(text: string): string {
  if (!text.includes("%")) return text;
  const bytes = text
    .replace(/%u([0-9a-f]{4})/gi, (_, hex: string) => String.fromCodePoint(Number.parseInt(hex, 16)))
    .replace(/(?:%[0-9a-f]{2})+/gi, (run) => decodeRun(Buffer.from(run.replaceAll("%", ""), "hex")));
  return bytes;
}

/** Decodes UTF-8, including the overlong forms of ASCII that lax decoders accept: `%c0%af` and `%e0%80%af` for a slash. */
function decodeRun(bytes: Buffer): string {
  const latin = bytes
    .toString("latin1")
    .replace(/\xe0[\x80\x81]([\x80-\xbf])/g, (match, last: string) => overlong(match.charCodeAt(1), last))
    .replace(/([\xc0\xc1])([\x80-\xbf])/g, (_, first: string, last: string) => overlong(first.charCodeAt(0), last));
  return Buffer.from(latin, "latin1").toString("utf8");
}

/** The lowest bit of the previous byte is bit 6 of the character. */
const overlong = (before: number, last: string) =>
  String.fromCharCode(((before & 1) << 6) | (last.charCodeAt(0) & 0x3f));
