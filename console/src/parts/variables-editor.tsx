import { Eye, EyeOff, Plus, Trash2 } from "lucide-react";
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
}

/** Names and hidden values, as a table or as the text of a `.env` file. */
export function VariablesEditor({ variables, source, onChange, markOf }: Props) {
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
      {way === "raw" ? (
        <RawVariables {...{ variables, source, onChange }} />
      ) : (
        <VariablesTable {...{ variables, source, onChange }} {...(markOf !== undefined && { markOf })} />
      )}
    </>
  );
}

function VariablesTable({ variables, source, onChange, markOf }: Props) {
  const [isShown, setShown] = useState(false);
  const table = useRef<HTMLTableElement>(null);
  const added = useRef(false);
  const set = (index: number, change: Partial<Secret>) =>
    onChange(variables.map((variable, at) => (at === index ? { ...variable, ...change } : variable)));
  const count = variables.length;
  useEffect(() => {
    if (!added.current || count === 0) return;
    added.current = false;
    table.current?.querySelector<HTMLInputElement>("tbody tr:last-child input")?.focus();
  }, [count]);
  const add = () => {
    added.current = true;
    onChange([...variables, { name: "", value: "" }]);
  };
  return (
    <>
      {count > 0 && (
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
              // biome-ignore lint/suspicious/noArrayIndexKey: names change while they are typed; rows have no other identity.
              <tr key={index}>
                <td>
                  <input
                    aria-label={`Name ${index + 1}`}
                    value={variable.name}
                    placeholder="NAME"
                    autoComplete="off"
                    spellCheck={false}
                    onChange={(event) => set(index, { name: event.target.value })}
                  />
                </td>
                <td>
                  <Value
                    label={`Value of ${variable.name || index + 1}`}
                    isShown={isShown}
                    value={variable.value}
                    onValue={(value) => set(index, { value })}
                  />
                </td>
                <td>
                  <div className="row">
                    <IconButton
                      name={`Remove ${variable.name}`}
                      icon={<Trash2 size={15} />}
                      onClick={() => onChange(variables.filter((_, at) => at !== index))}
                    />
                    {markOf && markOf(variable) !== "" && <span className="mark-text">{markOf(variable)}</span>}
                  </div>
                </td>
              </tr>
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
