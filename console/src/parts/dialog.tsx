import { type ReactNode, useEffect, useId, useRef, useState } from "react";

/** A native modal dialog, which traps the keyboard focus and closes on Escape. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    if (dialog === null || dialog.open) return;
    dialog.showModal();
    // The browser would focus the close button.
    dialog.querySelector<HTMLElement>("input, select, textarea")?.focus();
  }, []);
  return (
    <dialog ref={element} aria-labelledby={heading} onClose={onClose} className="card">
      <div className="row spread">
        <h2 id={heading}>{title}</h2>
        <button type="button" className="plain" onClick={onClose} aria-label="Close">
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
}

/** A dialog for actions that cannot be undone: the user has to type the name first. */
export function ConfirmByName(props: {
  title: string;
  name: string;
  action: string;
  isBusy: boolean;
  onConfirm: () => void;
  onClose: () => void;
  children: ReactNode;
}) {
  const { title, name, action, isBusy, onConfirm, onClose, children } = props;
  const [typed, setTyped] = useState("");
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (typed === name) onConfirm();
        }}
      >
        {children}
        <label className="field">
          <span>
            Type <code>{name}</code> to confirm
          </span>
          <input value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
        </label>
        <div className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="danger" disabled={typed !== name || isBusy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
