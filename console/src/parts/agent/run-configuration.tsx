import { useState } from "react";
import { Dialog } from "../dialog.tsx";
import { parseJson } from "./json-text.tsx";

/** Asks what the next runs get beside their input. */
export function RunConfiguration(props: {
  config: Record<string, unknown>;
  onSave: (config: Record<string, unknown>) => void;
  onClose: () => void;
}) {
  const { config, onSave, onClose } = props;
  const given = (config["config"] as { configurable?: unknown } | undefined)?.configurable ?? {};
  const [text, setText] = useState(() => JSON.stringify(given, null, 2));
  const [nodes, setNodes] = useState(() => ((config["interrupt_before"] as string[] | undefined) ?? []).join(", "));
  const [problem, setProblem] = useState<string | null>(null);
  const save = () => {
    const parsed = parseJson(text.trim() === "" ? "{}" : text);
    if ("problem" in parsed) return setProblem(parsed.problem);
    const before = nodes.split(/[\s,]+/).filter(Boolean);
    const isSet = Object.keys((parsed.value ?? {}) as object).length > 0;
    onSave({
      ...(isSet && { config: { configurable: parsed.value } }),
      ...(before.length > 0 && { interrupt_before: before }),
    });
  };
  return (
    <Dialog title="Configuration of the next runs" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <label className="field">
          <span>Configurable values (JSON)</span>
          <textarea value={text} onChange={(event) => setText(event.target.value)} />
          <small className={problem === null ? "soft" : "bad-text"}>
            {problem ?? "The agent reads them as config.configurable."}
          </small>
        </label>
        <label className="field">
          <span>Stop before these nodes</span>
          <input value={nodes} onChange={(event) => setNodes(event.target.value)} />
          <small className="soft">Names, separated by commas. Empty: the run stops only where the agent asks.</small>
        </label>
        <div className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary">
            Use for the next run
          </button>
        </div>
      </form>
    </Dialog>
  );
}
