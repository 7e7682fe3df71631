/** What a message asks for. */
export type Intent =
  | { kind: "greet" }
  | { kind: "calculate"; expression: string }
  | { kind: "remember"; what: string; value: string }
  | { kind: "recall"; what: string }
  | { kind: "other" };

/** A model would do this in a real agent; a few patterns are enough to show how a graph branches. */
export function understand(text: string): Intent {
  const told = /\bmy ([\w ]{1,40}?) is ([^.!?]{1,200})/i.exec(text);
  const asked = /\bwhat(?:'s| is) my ([\w ]{1,40})\?/i.exec(text);
  const sum = /[-+(\d][-+*/().\d\s]*[\d)]/.exec(text)?.[0];
  if (asked) return { kind: "recall", what: name(asked[1]) };
  if (told) return { kind: "remember", what: name(told[1]), value: (told[2] ?? "").trim() };
  if (sum && /\d\s*[-+*/]/.test(sum)) return { kind: "calculate", expression: sum.trim() };
  if (/\b(hi|hello|hey|help)\b/i.test(text)) return { kind: "greet" };
  return { kind: "other" };
}

const name = (words = "") => words.trim().toLowerCase();
