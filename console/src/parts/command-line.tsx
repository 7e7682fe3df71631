import { Copy } from "lucide-react";
import { copyText } from "./copy-as.tsx";
import { useToasts } from "./toasts.tsx";

/** A command with a button to copy it. */
export function CommandLine({ text }: { text: string }) {
  const { notify, notifyError } = useToasts();
  return (
    <div className="command">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable with the keyboard. */}
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
      <button
        type="button"
        className="quiet small"
        aria-label={`Copy: ${text}`}
        onClick={() => void copyText(text).then(() => notify("Copied."), notifyError)}
      >
        <Copy size={14} /> Copy
      </button>
    </div>
  );
}
