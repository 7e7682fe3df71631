import { Check, X } from "lucide-react";
import { useRef, useState } from "react";
import { actionRequests, type Interrupt, isQuestionKey, questionOf } from "../../agent/types.ts";
import { textOf } from "../../server.ts";
import { useKeys } from "../keys.ts";
import { InterruptCalls } from "./interrupt-calls.tsx";
import { jsonOf, parseJson } from "./json-text.tsx";

type Way = "choose" | "edit" | "decline" | "json";

interface Props {
  interrupt: Interrupt;
  /** Sends the answer. The run goes on from there. */
  onAnswer: (answer: unknown) => Promise<void>;
  /** The row of a list: its heading is of the second level, and the buttons stand beside the question. */
  isRow?: boolean;
  /** Tells rows with the same question apart, such as the id of their thread. */
  mark?: string;
}

/** What a run asks a person: its question, the facts of it as fields, and the ways to answer. */
export function InterruptForm({ interrupt, onAnswer, isRow = false, mark }: Props) {
  const { value } = interrupt;
  const Heading = isRow ? "h2" : "h3";
  const [way, setWay] = useState<Way>("choose");
  const [edits, setEdits] = useState<Record<string, string>>({});
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState(() => jsonOf(approval(value, {})));
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  // A key alone approves nothing: it goes to the button, which Enter presses. `r` leads to the revisions of the deployment.
  useKeys(
    isRow || way !== "choose"
      ? {}
      : { a: () => form.current?.querySelector<HTMLElement>("[type=submit]")?.focus(), n: () => setWay("decline") },
  );
  const [problem, setProblem] = useState<string | null>(null);
  const fields = fieldsOf(value);
  const send = async (answer: unknown) => {
    setBusy(true);
    setProblem(null);
    try {
      await onAnswer(answer);
    } catch (error) {
      setProblem(textOf(error));
    } finally {
      setBusy(false);
    }
  };
  const approved = approval(value, way === "edit" ? changed(fields, edits) : {});
  const answer = way === "decline" ? refusal(value, reason) : approved;
  const submit = () => {
    if (way !== "json") return void send(answer);
    const parsed = parseJson(typed);
    if ("problem" in parsed) setProblem(parsed.problem);
    else void send(parsed.value);
  };
  return (
    <form
      ref={form}
      className={`interrupt ${isRow ? "as-row" : ""} ${way === "choose" ? "choosing" : ""}`}
      aria-label={isRow ? `${questionOf(value)} (${mark})` : "Answer the agent"}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Heading>{questionOf(value)}</Heading>
      <InterruptCalls value={value} requests={actionRequests(value)} />
      {fields.length > 0 && <Facts {...{ fields, edits, setEdits }} isEditing={way === "edit"} />}
      {way === "decline" && (
        <label className="field">
          <span>Reason for the agent</span>
          <input value={reason} onChange={(event) => setReason(event.target.value)} />
        </label>
      )}
      {way === "json" && (
        <label className="field">
          <span>Answer as JSON</span>
          <textarea value={typed} onChange={(event) => setTyped(event.target.value)} />
        </label>
      )}
      {problem !== null && (
        <p role="alert" className="bad-text">
          {problem}
        </p>
      )}
      <Acts {...{ way, setWay, isBusy, isRow }} canEdit={fields.length > 0} />
      {(way === "edit" || way === "decline") && (
        <p className="softer">
          Sends <code>{JSON.stringify(answer)}</code>
        </p>
      )}
    </form>
  );
}

interface ActsProps {
  way: Way;
  setWay: (way: Way) => void;
  isBusy: boolean;
  isRow: boolean;
  canEdit: boolean;
}

function Acts({ way, setWay, isBusy, isRow, canEdit }: ActsProps) {
  const size = isRow ? "small" : "";
  const choose = (next: Way) => ({ type: "button" as const, disabled: isBusy, onClick: () => setWay(next) });
  if (way !== "choose")
    return (
      <div className="row">
        <button type="submit" className={`${way === "decline" ? "danger" : "primary"} ${size}`} disabled={isBusy}>
          {way === "decline" ? "Decline" : way === "json" ? "Send the answer" : "Approve with these values"}
        </button>
        <button {...choose("choose")} className={`quiet ${size}`}>
          Cancel
        </button>
      </div>
    );
  return (
    <div className="row ways">
      <button type="submit" className={isRow ? size : "primary"} disabled={isBusy}>
        <Check size={14} /> Approve
      </button>
      {canEdit && (
        <button {...choose("edit")} className={size}>
          Edit …
        </button>
      )}
      <button {...choose("decline")} className={size}>
        <X size={14} /> Decline …
      </button>
      <button {...choose("json")} className={`quiet ${size}`}>
        Answer in JSON
      </button>
    </div>
  );
}

interface FactsProps {
  fields: Field[];
  edits: Record<string, string>;
  setEdits: (edits: Record<string, string>) => void;
  isEditing: boolean;
}

function Facts({ fields, edits, setEdits, isEditing }: FactsProps) {
  return (
    <dl className="facts">
      {fields.map(({ key, label, value: fact, isShort }) => (
        <div key={key}>
          <dt>{label}</dt>
          <dd>
            {isEditing ? (
              <input
                aria-label={label}
                className="mono"
                value={edits[key] ?? fact}
                onChange={(event) => setEdits({ ...edits, [key]: event.target.value })}
              />
            ) : isShort ? (
              fact
            ) : (
              <pre className="json">{fact}</pre>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

interface Field {
  key: string;
  label: string;
  value: string;
  isText: boolean;
  /** Texts, numbers and the like. Others are JSON. */
  isShort: boolean;
}

/**
 * Returns the facts of a question: of the tool call that it is about, or else of its value. A person approves all of them, so none is
 * left out.
 */
function fieldsOf(value: unknown): Field[] {
  const [request] = actionRequests(value);
  const source = request?.args ?? value;
  if (typeof source !== "object" || source === null) return [];
  const shown = questionOf(value);
  return Object.entries(source).flatMap(([key, fact]) => {
    if (request === undefined && fact === shown && isQuestionKey(key)) return [];
    const isText = typeof fact === "string";
    const isShort = typeof fact !== "object" || fact === null;
    const words = key.replaceAll(/[_-]+/g, " ");
    const label = words.charAt(0).toUpperCase() + words.slice(1);
    return [{ key, label, value: isText ? fact : jsonOf(fact), isText, isShort }];
  });
}

function changed(fields: readonly Field[], edits: Record<string, string>): Record<string, unknown> {
  const entries = fields.flatMap(({ key, value, isText }) => {
    const edit = edits[key];
    if (edit === undefined || edit === value) return [];
    const parsed = isText ? { problem: "" } : parseJson(edit);
    return [[key, "value" in parsed ? parsed.value : edit] as const];
  });
  return Object.fromEntries(entries);
}

const isOfMiddleware = (value: unknown) =>
  typeof value === "object" && value !== null && "action_requests" in value && !Array.isArray(value);

/**
 * Returns the answer that approves. LangChain's middleware and agent inbox have forms of their own; other agents read `true`, or
 * the changed values.
 */
function approval(value: unknown, edits: Record<string, unknown>): unknown {
  const requests = actionRequests(value);
  const isEdited = Object.keys(edits).length > 0;
  if (requests.length === 0) return isEdited ? { approved: true, ...edits } : true;
  const edited = requests.map((request, at) =>
    at === 0 ? { ...request, args: { ...request.args, ...edits } } : request,
  );
  if (isOfMiddleware(value))
    return {
      decisions: edited.map((request, at) =>
        isEdited && at === 0 ? { type: "edit", edited_action: request } : { type: "approve" },
      ),
    };
  return edited.map(({ name, args }, at) =>
    isEdited && at === 0 ? { type: "edit", args: { action: name, args } } : { type: "accept", args: null },
  );
}

/** Returns the answer that declines. It is never `false`, because LangGraph.js takes a false answer for none. */
function refusal(value: unknown, reason: string): unknown {
  const requests = actionRequests(value);
  const message = reason.trim();
  if (requests.length === 0) return { approved: false, ...(message !== "" && { reason: message }) };
  if (isOfMiddleware(value))
    return { decisions: requests.map(() => ({ type: "reject", ...(message !== "" && { message }) })) };
  return requests.map(() => (message === "" ? { type: "ignore", args: null } : { type: "response", args: message }));
}
