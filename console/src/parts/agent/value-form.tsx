import { useId } from "react";
import { authorOf, type Message } from "../../agent/types.ts";
import type { ValueField } from "../../agent/value-fields.ts";
import { jsonOf, parseJson } from "./json-text.tsx";

interface Props {
  fields: readonly ValueField[];
  texts: Readonly<Record<string, string>>;
  onText: (key: string, text: string) => void;
}

/** The values of a state, an input or a configuration as fields. Values without a simple form are JSON. */
export function ValueForm({ fields, texts, onText }: Props) {
  return (
    <div className="value-form">
      {fields.map((field) => (
        <Field key={field.key} field={field} text={texts[field.key] ?? ""} onText={(text) => onText(field.key, text)} />
      ))}
    </div>
  );
}

interface FieldProps {
  field: ValueField;
  text: string;
  onText: (text: string) => void;
}

function Field({ field, text, onText }: FieldProps) {
  const id = useId();
  const { key, kind, hint, isRequired } = field;
  if (kind === "messages" && text !== "") return <Messages text={text} onText={onText} />;
  return (
    <div className={kind === "boolean" ? "field is-switch" : "field"}>
      <label htmlFor={id}>
        <code>{key}</code>
        {isRequired && <span className="softer"> required</span>}
      </label>
      <Control id={id} field={field} text={text} onText={onText} />
      {hint !== null && (
        <small id={`${id}-hint`} className="soft">
          {hint}
        </small>
      )}
    </div>
  );
}

function Control({ id, field: { kind, options, hint }, text, onText }: FieldProps & { id: string }) {
  const common = { id, value: text, "aria-describedby": hint === null ? undefined : `${id}-hint` };
  if (kind === "boolean")
    return (
      <input
        id={id}
        type="checkbox"
        checked={text === "true"}
        onChange={(event) => onText(String(event.target.checked))}
      />
    );
  if (kind === "choice")
    return (
      <select {...common} onChange={(event) => onText(event.target.value)}>
        {!options.includes(text) && <option value={text}>{text === "" ? "Not set" : text}</option>}
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    );
  if (kind === "number")
    return <input {...common} type="number" step="any" onChange={(event) => onText(event.target.value)} />;
  return (
    <textarea
      {...common}
      rows={Math.min(8, Math.max(1, text.split("\n").length, Math.ceil(text.length / 40)))}
      className={kind === "text" ? "value-field" : "value-field mono"}
      spellCheck={kind === "text"}
      onChange={(event) => onText(event.target.value)}
    />
  );
}

const names = { human: "You", ai: "Agent", tool: "Tool", system: "System" };

/** The messages of a state, each with its text. What is no text is left as it is. */
function Messages({ text, onText }: Omit<FieldProps, "field">) {
  const parsed = parseJson(text);
  const messages = "value" in parsed && Array.isArray(parsed.value) ? (parsed.value as Message[]) : [];
  const change = (at: number, content: string) =>
    onText(jsonOf(messages.map((message, index) => (index === at ? { ...message, content } : message))));
  return (
    <fieldset className="message-fields">
      <legend>
        <code>messages</code>
      </legend>
      {messages.map((message, at) => (
        <MessageField key={message.id ?? at} message={message} at={at} onContent={(content) => change(at, content)} />
      ))}
    </fieldset>
  );
}

function MessageField(props: { message: Message; at: number; onContent: (content: string) => void }) {
  const { message, at, onContent } = props;
  const id = useId();
  const { content, tool_calls: calls = [] } = message;
  const name = (
    <>
      {names[authorOf(message)]}
      <span className="sr">, message {at + 1}</span>
    </>
  );
  if (typeof content !== "string")
    return (
      <div className="field">
        <span className="softer">{name}</span>
        <pre className="json boxed">{jsonOf(content)}</pre>
      </div>
    );
  // A message that only calls tools has no text to change.
  if (content === "" && calls.length > 0)
    return (
      <div className="field">
        <span className="softer">{name}</span>
        <p>
          Calls <code>{calls.map((call) => call.name).join(", ")}</code>
        </p>
      </div>
    );
  return (
    <div className="field">
      <label htmlFor={id} className="softer">
        {name}
      </label>
      <textarea
        id={id}
        rows={Math.min(6, Math.max(1, Math.ceil(content.length / 40)))}
        value={content}
        onChange={(event) => onContent(event.target.value)}
      />
    </div>
  );
}
