import { useState } from "react";
import type { Secret, SourceKind } from "../../../src/contract/deployments/deployment.ts";
import { dotenvOf, parseDotenv, refusedLines } from "../../../src/domain/dotenv.ts";
import { checkVariableNames } from "../../../src/domain/secret-names.ts";
import { textOf } from "../server.ts";

interface Props {
  variables: Secret[];
  source: SourceKind;
  onChange: (variables: Secret[]) => void;
}

interface Refusal {
  /** The line or the name. Never a value. */
  what: string;
  why: string;
}

/** Reads a `.env` file: the variables that the server accepts, and what it would refuse with the reason. */
function read(text: string, source: SourceKind): { found: Secret[]; refused: Refusal[] } {
  const refused: Refusal[] = refusedLines(text).map(({ line }) => ({
    what: `Line ${line}`,
    why: "It is not of the form NAME=value.",
  }));
  const found = parseDotenv(text).filter((variable) => {
    try {
      checkVariableNames([variable], source);
      return true;
    } catch (error) {
      refused.push({ what: variable.name, why: textOf(error) });
      return false;
    }
  });
  return { found, refused };
}

function Refusals({ refused, then }: { refused: readonly Refusal[]; then: string }) {
  if (refused.length === 0) return null;
  return (
    <div role="status" className="refusals">
      <b>{then}</b>
      <ul>
        {refused.map(({ what, why }) => (
          <li key={`${what} ${why}`}>
            <code>{what}</code> {why}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Adds the variables of a pasted `.env` file. Every line that is left out is named. */
export function PasteVariables({ variables, source, onChange }: Props) {
  const [text, setText] = useState("");
  const { found, refused } = read(text, source);
  const take = () => {
    const names = new Set(found.map(({ name }) => name));
    onChange([...variables.filter(({ name }) => !names.has(name) && name !== ""), ...found]);
    setText("");
  };
  return (
    <details className="paste">
      <summary>Paste a .env file</summary>
      <textarea
        aria-label="Contents of a .env file"
        value={text}
        onChange={(event) => setText(event.target.value)}
        placeholder="NAME=value"
      />
      <Refusals refused={refused} then={refused.length === 1 ? "One line is left out:" : "These lines are left out:"} />
      <button type="button" onClick={take} disabled={found.length === 0}>
        Add {found.length} {found.length === 1 ? "variable" : "variables"}
      </button>
    </details>
  );
}

/** All variables as the text of a `.env` file, with their values. */
export function RawVariables({ variables, source, onChange }: Props) {
  const [text, setText] = useState(() => dotenvOf(variables));
  // A value that no line can hold stays as it is.
  const [hidden] = useState(() => {
    const held = new Set(parseDotenv(dotenvOf(variables)).map(({ name }) => name));
    return variables.filter(({ name }) => name !== "" && !held.has(name));
  });
  const { refused } = read(text, source);
  const change = (next: string) => {
    setText(next);
    const after = read(next, source);
    if (after.refused.length === 0) onChange([...after.found, ...hidden]);
  };
  return (
    <div className="raw-variables">
      <textarea
        aria-label="Variables as a .env file"
        className="mono"
        spellCheck={false}
        autoComplete="off"
        rows={Math.min(24, Math.max(8, text.split("\n").length + 1))}
        value={text}
        placeholder="NAME=value"
        onChange={(event) => change(event.target.value)}
      />
      <Refusals refused={refused} then="The changes count when every line can be read:" />
      {hidden.length > 0 && (
        <p className="soft">
          Edit <code>{hidden.map(({ name }) => name).join(", ")}</code> in the table: a line cannot hold the value.
        </p>
      )}
    </div>
  );
}
