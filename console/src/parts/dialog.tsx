import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";
import { IconButton } from "./icon-button.tsx";

/**
 * A modal dialog. It keeps the keyboard focus and closes on Escape, but not on a click outside, which would lose typed text.
 * The focus begins in its first field.
 */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const popup = useRef<HTMLDivElement>(null);
  const firstField = () =>
    popup.current?.querySelector<HTMLElement>("input:not([type=checkbox]), select, textarea") ?? popup.current;
  return (
    <Base.Root open disablePointerDismissal onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup ref={popup} className="dialog" initialFocus={firstField}>
          <div className="dialog-head">
            <Base.Title>{title}</Base.Title>
            <Base.Close render={<IconButton name="Close" icon={<X size={15} />} />} />
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
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
