import { type Labels, labelsText } from "../../../src/domain/listener-labels.ts";

/** Returns the labels of a text such as `gpu=l4, region=eu`, or null if a part of it is none. The server checks keys and values. */
export function labelsFrom(text: string): Record<string, string> | null {
  const parts = text
    .split(/[\s,]+/)
    .filter((part) => part !== "")
    .map((part) => /^([^=]+)=([^=]*)$/.exec(part));
  if (parts.includes(null)) return null;
  return Object.fromEntries(parts.flatMap((part) => (part === null ? [] : [[part[1], part[2]]])));
}

/** Labels as tags. */
export function LabelTags({ labels }: { labels: Labels }) {
  const texts = labelsText(labels)
    .split(", ")
    .filter((text) => text !== "");
  if (texts.length === 0) return null;
  return (
    <span className="row labels">
      {texts.map((text) => (
        <span key={text} className="tag mono">
          {text}
        </span>
      ))}
    </span>
  );
}
