import type { ReactNode } from "react";
import { CopyAs, type Repeatable } from "./copy-as.tsx";

/** A card with a form: its fields, the button that saves them, and the call that does the same. */
export function FormCard(props: {
  title: string;
  /** Whether something is changed and nothing is wrong. */
  isReady: boolean;
  isSaving: boolean;
  onSave: () => void;
  call: Repeatable;
  children: ReactNode;
}) {
  const { title, isReady, isSaving, onSave, call, children } = props;
  return (
    <form
      className="card"
      onSubmit={(event) => {
        event.preventDefault();
        onSave();
      }}
    >
      <h2>{title}</h2>
      {children}
      <div className="row">
        <button type="submit" className="primary" disabled={!isReady || isSaving}>
          Save
        </button>
        <CopyAs call={call} />
      </div>
    </form>
  );
}
