/** Marks in one paragraph, and quotes or lists nested in one line, of more than any text for people has. */
const marksMax = 4_000;
const nestedMax = 100;

const nesting = /^(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])[ \t]))+/gm;

/**
 * Reports whether a text takes too long to format. The time grows with the square of the marks in one paragraph, so 20,000 of them
 * would hang the tab for 15 s, and 2,000 nested lists overflow the stack.
 */
export function isCostlyMarkdown(text: string): boolean {
  if (text.split(/\n[ \t]*\n/).some((paragraph) => (paragraph.match(/[*_~[]/g)?.length ?? 0) > marksMax)) return true;
  return text.match(nesting)?.some((line) => (line.match(/[>*+.)-]/g)?.length ?? 0) > nestedMax) ?? false;
}
