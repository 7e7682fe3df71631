import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { textOf } from "../server.ts";

interface Toast {
  id: number;
  text: string;
  isBad: boolean;
  /** Reverts the action. */
  undo: (() => void) | undefined;
}

interface Toasts {
  notify(text: string, undo?: () => void): void;
  /** Shows an error. */
  notifyError(error: unknown): void;
}

const Context = createContext<Toasts>({ notify: () => {}, notifyError: () => {} });

export const useToasts = () => useContext(Context);

const shownMs = 6_000;
let lastId = 0;

/** Shows short notifications in the corner and announces them to screen readers. */
export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([]);
  const drop = useCallback((id: number) => setToasts((others) => others.filter((one) => one.id !== id)), []);
  const show = useCallback(
    (text: string, isBad: boolean, undo?: () => void) => {
      lastId += 1;
      const id = lastId;
      setToasts((others) => [...others.slice(-3), { id, text, isBad, undo }]);
      setTimeout(() => drop(id), isBad || undo !== undefined ? 2 * shownMs : shownMs);
    },
    [drop],
  );
  const value = useMemo<Toasts>(
    () => ({ notify: (text, undo) => show(text, false, undo), notifyError: (error) => show(textOf(error), true) }),
    [show],
  );
  return (
    <Context.Provider value={value}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map(({ id, text, isBad, undo }) => (
          <div key={id} className={isBad ? "toast bad" : "toast"}>
            {text}{" "}
            {undo !== undefined && (
              <button
                type="button"
                onClick={() => {
                  drop(id);
                  undo();
                }}
              >
                Undo
              </button>
            )}
          </div>
        ))}
      </div>
    </Context.Provider>
  );
}
