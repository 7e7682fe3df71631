const ellipsis = "…";

/**
 * Shortens a text to at most `max` characters: after a whole line if it has several, otherwise after a whole word, and ends it with
 * "…". It cuts between characters, because PostgreSQL stores no half of a surrogate pair.
 */
export function shortenText(text: string, max: number): string {
  const characters = [...text.slice(0, 2 * max + 2)];
  if (characters.length <= max && text.length <= 2 * max) return text;
  const cut = characters.slice(0, max - 2).join("");
  const lineEnd = cut.lastIndexOf("\n");
  // A part of a line of a log is worth less than none.
  if (lineEnd > 0) return `${cut.slice(0, lineEnd)}\n${ellipsis}`;
  const isWordWhole = /\s/.test(characters[max - 2] ?? " ");
  const wordEnd = isWordWhole ? cut.length : cut.search(/\s+\S*$/);
  // A text without spaces, or with a long word at its end, would lose too much.
  const kept = wordEnd > cut.length / 2 ? cut.slice(0, wordEnd).trimEnd() : cut;
  return `${kept}${ellipsis}`;
}
