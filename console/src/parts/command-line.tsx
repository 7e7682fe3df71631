import { copyText } from "./copy-as.tsx";
import { useToasts } from "./toasts.tsx";

/** A command that people copy into a terminal. */
export function CommandLine({ text }: { text: string }) {
  const { say, fail } = useToasts();
  return (
    <div className="command">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard. */}
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
      <button
        type="button"
        aria-label={`Copy: ${text}`}
        onClick={() => void copyText(text).then(() => say("Copied."), fail)}
      >
        Copy
      </button>
    </div>
  );
}
