import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { textOf } from "../server.ts";

interface Toast {
  id: number;
  text: string;
  isBad: boolean;
}

interface Toasts {
  say(text: string): void;
  /** Says what failed. */
  fail(error: unknown): void;
}

const Context = createContext<Toasts>({ say: () => {}, fail: () => {} });

export const useToasts = () => useContext(Context);

const shownMs = 6_000;
let lastId = 0;

/** Short words on what was done, in the corner and for screen readers. */
export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([]);
  const show = useCallback((text: string, isBad: boolean) => {
    lastId += 1;
    const id = lastId;
    setToasts((others) => [...others.slice(-3), { id, text, isBad }]);
    setTimeout(() => setToasts((others) => others.filter((one) => one.id !== id)), isBad ? 2 * shownMs : shownMs);
  }, []);
  const value = useMemo<Toasts>(
    () => ({ say: (text) => show(text, false), fail: (error) => show(textOf(error), true) }),
    [show],
  );
  return (
    <Context.Provider value={value}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map(({ id, text, isBad }) => (
          <div key={id} className={isBad ? "toast bad" : "toast"}>
            {text}
          </div>
        ))}
      </div>
    </Context.Provider>
  );
}
