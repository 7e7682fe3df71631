import { Check, Copy } from "lucide-react";
import { useState } from "react";

/** A value as indented JSON. */
export const jsonOf = (value: unknown): string => JSON.stringify(value, null, 2) ?? "null";

/** A value as JSON in a region that scrolls, with a button that copies it. */
export function JsonBlock({ value, label }: { value: unknown; label: string }) {
  const [isCopied, setCopied] = useState(false);
  const text = jsonOf(value);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <div className="json-block">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard. */}
      <section className="json" aria-label={label} tabIndex={0}>
        <pre>{text}</pre>
      </section>
      {navigator.clipboard !== undefined && (
        <button type="button" className="quiet small" onClick={() => void copy()}>
          {isCopied ? <Check size={12} /> : <Copy size={12} />}
          {isCopied ? "Copied" : "Copy JSON"}
        </button>
      )}
    </div>
  );
}

/** Parses typed JSON. Returns the problem in words instead of a value. */
export function parseJson(text: string): { value: unknown } | { problem: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}
