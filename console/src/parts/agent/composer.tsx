import { useQuery } from "@tanstack/react-query";
import { ArrowUp, Paperclip, Square, X } from "lucide-react";
import { type ClipboardEvent, useRef, useState } from "react";
import { type Attachment, attachedBytesMax, attachmentOf, contentOf } from "../../agent/attachments.ts";
import type { Agent } from "../../agent/client.ts";
import type { Message } from "../../agent/types.ts";
import { fieldsOfSchema, readFields, textsOf } from "../../agent/value-fields.ts";
import { textOf } from "../../server.ts";
import { Tabs } from "../fields.tsx";
import { IconButton } from "../icon-button.tsx";
import { parseJson } from "./json-text.tsx";
import { readSchemas } from "./run-configuration.tsx";
import { ValueForm } from "./value-form.tsx";

type Mode = "message" | "form" | "json";

interface Props {
  agent: Agent;
  deploymentId: string;
  assistantId: string;
  messages: Message[];
  isRunning: boolean;
  /** The earlier message that the user is rewriting; null: a new message. */
  edited: { text: string } | null;
  onCancelEdit: () => void;
  onSend: (payload: Record<string, unknown>, shown?: Message[]) => Promise<void>;
  onStop: () => Promise<void>;
}

/** Where the next input is written: a message with files, the fields of the graph's input, or JSON. */
export function Composer(props: Props) {
  const { agent, deploymentId, assistantId, messages, isRunning, edited, onCancelEdit, onSend, onStop } = props;
  const [text, setText] = useState("");
  const [mode, setMode] = useState<Mode>("message");
  const [problem, setProblem] = useState<string | null>(null);
  const { files, add, remove, clear } = useFiles(setProblem);
  const form = useInputForm({ agent, deploymentId, assistantId, isAsked: mode === "form" });
  // The message to write again fills the field once.
  const [taken, setTaken] = useState(edited);
  if (edited !== taken) {
    setTaken(edited);
    if (edited !== null) {
      setMode("message");
      setText(edited.text);
    }
  }
  // A new conversation asks for its thread before the run begins. A second Enter would make a second thread.
  const isSending = useRef(false);
  const isEmpty =
    mode === "form" ? form.fields.length === 0 : text.trim() === "" && (mode === "json" || files.length === 0);
  const send = async () => {
    if (isRunning || isSending.current || isEmpty) return;
    setProblem(null);
    const input = inputOf(mode, text, files, form);
    if ("problem" in input) return setProblem(input.problem);
    setText("");
    isSending.current = true;
    try {
      await onSend({ input: input.value }, input.said === undefined ? undefined : [...messages, input.said]);
      clear();
    } catch {
      // The conversation shows the error. A message that the agent did not accept can be sent again.
      setText((since) => (since === "" ? text : since));
    } finally {
      isSending.current = false;
    }
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {problem !== null && (
        <p role="alert" className="bad-text">
          {problem}
        </p>
      )}
      {edited !== null && (
        <p className="row softer">
          Goes back to before this message and runs from there.
          <button type="button" className="quiet small" onClick={onCancelEdit}>
            <X size={12} /> Cancel
          </button>
        </p>
      )}
      {mode === "form" && <InputForm form={form} />}
      {mode !== "form" && (
        <textarea
          aria-label={mode === "json" ? "Input as JSON" : "Message"}
          rows={2}
          className={mode === "json" ? "mono" : ""}
          placeholder={mode === "json" ? '{"topic": "kettles"}' : "Ask something, ⇧⏎ for a new line"}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onPaste={(event) => mode === "message" && add(filesOfPaste(event))}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
            event.preventDefault();
            void send();
          }}
        />
      )}
      {mode === "message" && <Files files={files} onRemove={remove} />}
      <div className="row spread">
        <span className="row">
          <Tabs label="Kind of input" value={mode} onValue={setMode} options={modes} />
          {mode === "message" && <AttachButton onFiles={add} />}
        </span>
        <span className="row">
          {isRunning ? (
            <button type="button" className="small" onClick={() => void onStop()}>
              <Square size={11} /> Stop
            </button>
          ) : (
            <IconButton name="Send" icon={<ArrowUp size={15} />} type="submit" className="send" disabled={isEmpty} />
          )}
        </span>
      </div>
    </form>
  );
}

const modes = [
  { value: "message" as const, text: "Message" },
  { value: "form" as const, text: "Form" },
  { value: "json" as const, text: "JSON" },
];

type InputRead = { value: unknown; said?: Message } | { problem: string };

/** Returns the input of the run, and the message that the conversation shows at once. */
function inputOf(mode: Mode, text: string, files: readonly Attachment[], form: Form): InputRead {
  if (mode === "json") return parseJson(text);
  if (mode === "form") return readFields(form.fields, form.texts);
  const content = contentOf(text, files);
  return { value: { messages: [{ role: "user", content }] }, said: { type: "human", content } };
}

function useFiles(onProblem: (problem: string | null) => void) {
  const [files, setFiles] = useState<(Attachment & { size: number })[]>([]);
  const add = (list: readonly File[]) => {
    const size = [...files, ...list].reduce((sum, one) => sum + one.size, 0);
    if (list.length === 0) return;
    if (size > attachedBytesMax) return onProblem("Files of a message may have 4 MiB in total.");
    onProblem(null);
    void Promise.all(list.map(async (file) => ({ ...(await attachmentOf(file)), size: file.size }))).then(
      (read) => setFiles((before) => [...before, ...read]),
      (error: unknown) => onProblem(textOf(error)),
    );
  };
  const remove = (at: number) => setFiles(files.filter((_, index) => index !== at));
  return { files, add, remove, clear: () => setFiles([]) };
}

const filesOfPaste = (event: ClipboardEvent) => [...event.clipboardData.files];

function AttachButton({ onFiles }: { onFiles: (files: File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton name="Attach files" icon={<Paperclip size={14} />} onClick={() => input.current?.click()} />
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to attach"
        onChange={({ target }) => {
          onFiles([...(target.files ?? [])]);
          target.value = "";
        }}
      />
    </>
  );
}

function Files({ files, onRemove }: { files: readonly Attachment[]; onRemove: (at: number) => void }) {
  if (files.length === 0) return null;
  return (
    <ul className="plain sent-files" aria-label="Attached files">
      {files.map(({ name }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: two files may have one name.
        <li key={at} className="tag">
          {name}
          <button
            type="button"
            className="quiet icon-only small"
            aria-label={`Remove ${name}`}
            onClick={() => onRemove(at)}
          >
            <X size={11} />
          </button>
        </li>
      ))}
    </ul>
  );
}

type Form = ReturnType<typeof useInputForm>;

/** The fields of the graph's input. The agent is asked for them when the form is first opened. */
function useInputForm(of: { agent: Agent; deploymentId: string; assistantId: string; isAsked: boolean }) {
  const { agent, deploymentId, assistantId, isAsked } = of;
  const [typed, setTyped] = useState<Record<string, string>>({});
  const schemas = useQuery({
    queryKey: ["agent", deploymentId, "schemas", assistantId],
    queryFn: ({ signal }) => readSchemas(agent, assistantId, signal),
    enabled: isAsked && assistantId !== "",
    staleTime: Number.POSITIVE_INFINITY,
  });
  const fields = fieldsOfSchema(schemas.data?.input_schema);
  const texts = { ...textsOf(fields), ...typed };
  return { schemas, fields, texts, set: (key: string, text: string) => setTyped({ ...typed, [key]: text }) };
}

function InputForm({ form: { schemas, fields, texts, set } }: { form: Form }) {
  if (schemas.isPending) return <p className="soft">Asking the agent for the fields of its input …</p>;
  if (schemas.isError)
    return <p className="bad-text">The agent does not describe its input: {textOf(schemas.error)}</p>;
  if (fields.length === 0) return <p className="soft">The agent names no fields of its input. Use JSON.</p>;
  return <ValueForm fields={fields} texts={texts} onText={set} />;
}
