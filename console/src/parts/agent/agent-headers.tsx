import { useQueryClient } from "@tanstack/react-query";
import { KeyRound } from "lucide-react";
import { useState } from "react";
import { headersOf, keepHeaders, readHeaders } from "../../agent/own-headers.ts";
import { Dialog } from "../dialog.tsx";

/** Asks for the headers of an agent with its own authentication. */
export function AgentHeaders({ deploymentId }: { deploymentId: string }) {
  const [isOpen, setOpen] = useState(false);
  const queries = useQueryClient();
  const close = () => setOpen(false);
  const save = (headers: ReadonlyMap<string, string>) => {
    keepHeaders(deploymentId, headers);
    // The pages show what the agent answered for other credentials.
    void queries.resetQueries({ queryKey: ["agent", deploymentId] });
    close();
  };
  return (
    <>
      <button type="button" title="Headers" onClick={() => setOpen(true)}>
        <KeyRound size={14} /> <span className="word">Headers</span>
        {headersOf(deploymentId).size > 0 && <span className="tag">set</span>}
      </button>
      {isOpen && <HeadersDialog given={headersOf(deploymentId)} onSave={save} onClose={close} />}
    </>
  );
}

function HeadersDialog(props: {
  given: ReadonlyMap<string, string>;
  onSave: (headers: ReadonlyMap<string, string>) => void;
  onClose: () => void;
}) {
  const { given, onSave, onClose } = props;
  const [text, setText] = useState(() => [...given].map(([name, value]) => `${name}: ${value}`).join("\n"));
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <Dialog title="Headers for this agent" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const read = readHeaders(text);
          if ("problem" in read) setProblem(read.problem);
          else onSave(read.headers);
        }}
      >
        <label className="field">
          <span>Headers, one per line</span>
          <textarea
            value={text}
            onChange={(event) => setText(event.target.value)}
            placeholder="Authorization: Bearer …"
            autoComplete="off"
            spellCheck={false}
          />
          <small className={problem === null ? "soft" : "bad-text"}>
            {problem ??
              "The console sends them to this agent only, and forgets them when you reload the page or sign out."}
          </small>
        </label>
        <div className="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary">
            Use these headers
          </button>
        </div>
      </form>
    </Dialog>
  );
}
