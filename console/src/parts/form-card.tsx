import type { ReactNode } from "react";
import { CopyAs, type Repeatable } from "./copy-as.tsx";

/** A card with a form: its fields, the button that saves them, and the call that does the same. */
export function FormCard(props: {
  title: string;
  /** Whether something is changed and nothing is wrong. */
  isReady: boolean;
  isSaving: boolean;
  onSave: () => void;
  /** Text of the button. Default: Save. */
  submit?: string;
  call: Repeatable;
  children: ReactNode;
}) {
  const { title, isReady, isSaving, onSave, submit = "Save", call, children } = props;
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
          {submit}
        </button>
        <CopyAs call={call} />
      </div>
    </form>
  );
}
