import { Eye, EyeOff, Plus, Trash2, Undo2 } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { Secret, SourceKind } from "../../../src/contract/deployments/deployment.ts";
import { checkVariableNames } from "../../../src/domain/secret-names.ts";
import { problemFrom } from "../server.ts";
import { Tabs } from "./fields.tsx";
import { IconButton } from "./icon-button.tsx";
import { PasteVariables, RawVariables } from "./raw-variables.tsx";

/** Returns the server's reason to reject these variables, or null if they are valid. */
export const variablesProblem = (variables: readonly Secret[], source: SourceKind): string | null =>
  problemFrom(() => checkVariableNames(variables, source));

interface Props {
  variables: Secret[];
  source: SourceKind;
  onChange: (variables: Secret[]) => void;
  /** A mark beside the name, such as "changed". */
  markOf?: (variable: Secret) => string;
  /** Variables that the next revision no longer has. They stay in the table until the change is deployed. */
  removed?: { names: string[]; onRestore: (name: string) => void };
}

/** Names and hidden values, as a table or as the text of a `.env` file. */
export function VariablesEditor(props: Props) {
  const { variables, source, onChange } = props;
  const [way, setWay] = useState<"table" | "raw">("table");
  return (
    <>
      <Tabs
        label="Edit variables as"
        value={way}
        onValue={setWay}
        options={[
          { value: "table", text: "Table" },
          { value: "raw", text: ".env text" },
        ]}
      />
      {way === "raw" ? <RawVariables {...{ variables, source, onChange }} /> : <VariablesTable {...props} />}
    </>
  );
}

function VariablesTable({ variables, source, onChange, markOf, removed }: Props) {
  const [isShown, setShown] = useState(false);
  const table = useRef<HTMLTableElement>(null);
  const added = useRef(false);
  const set = (index: number, change: Partial<Secret>) =>
    onChange(variables.map((variable, at) => (at === index ? { ...variable, ...change } : variable)));
  const count = variables.length;
  useEffect(() => {
    if (!added.current || count === 0) return;
    added.current = false;
    [...(table.current?.querySelectorAll<HTMLInputElement>("td:first-child input") ?? [])].at(-1)?.focus();
  }, [count]);
  const add = () => {
    added.current = true;
    onChange([...variables, { name: "", value: "" }]);
  };
  return (
    <>
      {(count > 0 || (removed?.names.length ?? 0) > 0) && (
        <table ref={table} aria-label="Variables" className="variables">
          <thead>
            <tr>
              <th>Name</th>
              <th>Value</th>
              <th>
                <button type="button" className="quiet small" aria-pressed={isShown} onClick={() => setShown(!isShown)}>
                  {isShown ? <EyeOff size={14} /> : <Eye size={14} />} {isShown ? "Hide values" : "Show values"}
                </button>
              </th>
            </tr>
          </thead>
          <tbody>
            {variables.map((variable, index) => (
              <VariableRow
                // biome-ignore lint/suspicious/noArrayIndexKey: names change while they are typed; rows have no other identity.
                key={index}
                place={index + 1}
                variable={variable}
                mark={markOf?.(variable) ?? ""}
                isShown={isShown}
                onSet={(change) => set(index, change)}
                onRemove={() => onChange(variables.filter((_, at) => at !== index))}
              />
            ))}
            {removed?.names.map((name) => (
              <RemovedRow key={name} name={name} onRestore={() => removed.onRestore(name)} />
            ))}
          </tbody>
        </table>
      )}
      <div className="row">
        <button type="button" onClick={add}>
          <Plus size={15} /> Add a variable
        </button>
      </div>
      <PasteVariables {...{ variables, source, onChange }} />
    </>
  );
}

function VariableRow(props: {
  place: number;
  variable: Secret;
  mark: string;
  isShown: boolean;
  onSet: (change: Partial<Secret>) => void;
  onRemove: () => void;
}) {
  const { place, variable, mark, isShown, onSet, onRemove } = props;
  return (
    <tr className={mark === "" ? undefined : `marked ${mark === "new" ? "good" : "warn"}`}>
      <td>
        <input
          aria-label={`Name ${place}`}
          value={variable.name}
          placeholder="NAME"
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => onSet({ name: event.target.value })}
        />
      </td>
      <td>
        <Value
          label={`Value of ${variable.name || place}`}
          isShown={isShown}
          value={variable.value}
          onValue={(value) => onSet({ value })}
        />
      </td>
      <td>
        <div className="row">
          <IconButton name={`Remove ${variable.name}`} icon={<Trash2 size={15} />} onClick={onRemove} />
          {mark !== "" && <span className="mark-text">{mark}</span>}
        </div>
      </td>
    </tr>
  );
}

function RemovedRow({ name, onRestore }: { name: string; onRestore: () => void }) {
  return (
    <tr className="marked bad">
      <td>
        <s className="mono">{name}</s>
      </td>
      <td />
      <td>
        <div className="row">
          <IconButton name={`Put ${name} back`} icon={<Undo2 size={15} />} onClick={onRestore} />
          <span className="mark-text">removed</span>
        </div>
      </td>
    </tr>
  );
}

/**
 * A value of a variable. An input would join several lines, such as those of a private key, into one: they are pasted as a
 * whole, and edited in a text area while the values are shown.
 */
function Value(props: { label: string; isShown: boolean; value: string; onValue: (value: string) => void }) {
  const { label, isShown, value, onValue } = props;
  const isLong = value.includes("\n");
  if (isShown && isLong)
    return <textarea aria-label={label} value={value} onChange={(event) => onValue(event.target.value)} />;
  return (
    <input
      aria-label={label}
      type={isShown ? "text" : "password"}
      autoComplete="off"
      value={value}
      readOnly={isLong}
      title={isLong ? "This value has several lines. Show the values to edit it." : undefined}
      onChange={(event) => onValue(event.target.value)}
      onPaste={(event) => {
        const text = event.clipboardData.getData("text").replaceAll("\r\n", "\n");
        if (!text.trim().includes("\n")) return;
        event.preventDefault();
        onValue(text);
      }}
    />
  );
}
