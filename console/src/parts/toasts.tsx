import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { textOf } from "../server.ts";

interface Toast {
  id: number;
  text: string;
  isBad: boolean;
  action: ToastAction | undefined;
}

interface ToastAction {
  text: string;
  act: () => void;
}

interface Toasts {
  /** `action`: a button with a text, or a function that reverts what was done. */
  notify(text: string, action?: ToastAction | (() => void)): void;
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
    (text: string, isBad: boolean, given?: ToastAction | (() => void)) => {
      lastId += 1;
      const id = lastId;
      const action = typeof given === "function" ? { text: "Undo", act: given } : given;
      setToasts((others) => [...others.slice(-3), { id, text, isBad, action }]);
      setTimeout(() => drop(id), isBad || action !== undefined ? 2 * shownMs : shownMs);
    },
    [drop],
  );
  const value = useMemo<Toasts>(
    () => ({ notify: (text, action) => show(text, false, action), notifyError: (error) => show(textOf(error), true) }),
    [show],
  );
  return (
    <Context.Provider value={value}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map(({ id, text, isBad, action }) => (
          <div key={id} className={isBad ? "toast bad" : "toast"}>
            {text}{" "}
            {action !== undefined && (
              <button
                type="button"
                onClick={() => {
                  drop(id);
                  action.act();
                }}
              >
                {action.text}
              </button>
            )}
          </div>
        ))}
      </div>
    </Context.Provider>
  );
}
