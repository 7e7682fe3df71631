import { type InputHTMLAttributes, type ReactNode, useId } from "react";

interface Common {
  label: string;
  hint?: ReactNode;
  /** Why the value is invalid, in the server's words. */
  problem?: string | null | undefined;
}

/** A text field with a label, a hint, and its problem if it has one. */
export function TextField({
  label,
  hint,
  problem,
  value,
  onValue,
  ...input
}: Common & { value: string; onValue: (value: string) => void } & Omit<
    InputHTMLAttributes<HTMLInputElement>,
    "value"
  >) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        {...input}
        id={id}
        value={value}
        onChange={(event) => onValue(event.target.value)}
        aria-invalid={problem ? true : undefined}
        aria-describedby={`${id}-hint`}
        autoComplete="off"
        spellCheck={false}
      />
      <FieldHint id={`${id}-hint`} hint={hint} problem={problem} />
    </div>
  );
}

function FieldHint({ id, hint, problem }: { id: string; hint?: ReactNode; problem?: string | null | undefined }) {
  return (
    <small id={id} className={problem ? "bad-text" : "soft"}>
      {problem ?? hint}
    </small>
  );
}

export interface Option<V extends string> {
  value: V;
  text: string;
}

export function SelectField<V extends string>(
  props: Common & { value: V; onValue: (value: V) => void; options: Option<V>[] },
) {
  const { label, hint, problem, value, onValue, options } = props;
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        value={value}
        onChange={(event) => onValue(event.target.value as V)}
        aria-describedby={`${id}-hint`}
      >
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.text}
          </option>
        ))}
      </select>
      <FieldHint id={`${id}-hint`} hint={hint} problem={problem} />
    </div>
  );
}

/** A choice among a few options, all of them visible. */
export function Tabs<V extends string>(props: {
  label: string;
  value: V;
  onValue: (value: V) => void;
  options: Option<V>[];
}) {
  const { label, value, onValue, options } = props;
  return (
    <fieldset className="segmented" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onValue(option.value)}
        >
          {option.text}
        </button>
      ))}
    </fieldset>
  );
}
