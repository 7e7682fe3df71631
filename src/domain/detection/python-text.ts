/** What begins a comment or a string in Python. */
const beginning = /#|("""|'''|"|')/g;

/** The rest of a string in one line. Without an end, it ends with the line. */
const restOfString: Readonly<Record<string, RegExp>> = {
  '"': /(?:\\.|[^"\\\n])*"?/y,
  "'": /(?:\\.|[^'\\\n])*'?/y,
};

/**
 * Returns the text of a Python file without what its strings over several lines say: code that a program shows to a model, or writes
 * into a file, is not its own. Their line ends stay. A text whose last string does not end is returned as it is.
 */
export function withoutLongStrings(text: string): string {
  let kept = "";
  let at = 0;
  beginning.lastIndex = 0;
  for (let match = beginning.exec(text); match !== null; match = beginning.exec(text)) {
    const [begun, quote] = match;
    const from = match.index + begun.length;
    const rest = restOfString[quote ?? ""];
    if (quote === undefined) beginning.lastIndex = lineEnd(text, from);
    else if (rest !== undefined) {
      rest.lastIndex = from;
      beginning.lastIndex = from + (rest.exec(text)?.[0].length ?? 0);
    } else {
      const end = endOfLongString(text, quote, from);
      if (end === null) return text;
      kept += text.slice(at, from) + text.slice(from, end).replaceAll(/[^\n]+/g, "");
      at = end;
      beginning.lastIndex = end + quote.length;
    }
  }
  return kept + text.slice(at);
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end === -1 ? text.length : end;
}

function endOfLongString(text: string, quote: string, from: number): number | null {
  for (let end = text.indexOf(quote, from); end !== -1; end = text.indexOf(quote, end + 1))
    if (!isEscaped(text, end, from)) return end;
  return null;
}

/** Whether the character has an odd number of backslashes before it, of which the last one escapes it. */
function isEscaped(text: string, at: number, from: number): boolean {
  let before = at;
  while (before > from && text[before - 1] === "\\") before -= 1;
  return (at - before) % 2 === 1;
}
