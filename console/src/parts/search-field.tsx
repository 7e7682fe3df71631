import { Search } from "lucide-react";
import { type ComponentProps, useEffect, useRef, useState } from "react";
import { useKeys } from "./keys.ts";

interface Props extends Omit<ComponentProps<"input">, "type" | "value" | "ref"> {
  label: string;
  value: string;
  /** Gets the text with each key press. Callers that need the event as well give `onChange`. */
  onText?: (text: string) => void;
  /** Lets the caller move the cursor. */
  box?: React.RefObject<HTMLInputElement | null>;
}

/** A search field with its icon. `/` moves the focus there. Children stand below the text, such as completions. */
export function SearchField({ label, onText, box, children, ...input }: Props) {
  const own = useRef<HTMLInputElement>(null);
  const field = box ?? own;
  useKeys({ "/": () => field.current?.focus() });
  return (
    <span className="with-icon">
      <Search size={14} />
      <input
        ref={field}
        type="search"
        aria-label={label}
        onChange={({ target }) => onText?.(target.value)}
        {...input}
      />
      <kbd>/</kbd>
      {children}
    </span>
  );
}

/**
 * Returns the text of a search whose truth is the address, and a function that changes it. The address follows after a pause in
 * typing. It is the truth again once it contains the text, also after a link or the Back button. `lengthMax`: what the address
 * keeps of the text.
 */
export function useSearchText(props: {
  inAddress: string;
  onText: (text: string) => void;
  pauseMs: number;
  lengthMax?: number;
}): [text: string, setText: (text: string) => void] {
  const { inAddress, onText, pauseMs, lengthMax } = props;
  // Set until the address contains the text.
  const [typed, setTyped] = useState<string>();
  const send = useRef(onText);
  send.current = onText;
  useEffect(() => {
    if (typed === undefined) return;
    // A key that was pressed meanwhile stays.
    if (typed.slice(0, lengthMax) === inAddress) return setTyped((now) => (now === typed ? undefined : now));
    const timer = setTimeout(() => send.current(typed), pauseMs);
    return () => clearTimeout(timer);
  }, [typed, inAddress, pauseMs, lengthMax]);
  return [typed ?? inAddress, setTyped];
}
