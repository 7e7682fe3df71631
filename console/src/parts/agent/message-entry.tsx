import { Bot, ChevronRight, FileText, Image, Info, User, Wrench } from "lucide-react";
import type { ReactNode } from "react";
import { filesIn } from "../../agent/attachments.ts";
import { authorOf, type Message, type ToolCall, textOfMessage } from "../../agent/types.ts";
import { jsonOf } from "./json-text.tsx";
import { Markdown } from "./markdown.tsx";

const icons = { human: User, ai: Bot, tool: Wrench, system: Info };
const names = { human: "You", ai: "Agent", tool: "Tool", system: "System" };

/** One line of a conversation: an icon for the author, and what they said. */
export function Line({
  kind,
  icon,
  label,
  children,
}: {
  kind: string;
  icon: ReactNode;
  label: string;
  children: ReactNode;
}) {
  return (
    <li className={`tl ${kind}`}>
      <span className="tl-icon">
        {icon}
        <span className="sr">{label}: </span>
      </span>
      <div className="tl-body">{children}</div>
    </li>
  );
}

/** The messages of a conversation. Results of tools stand in the calls that they answer. */
export function MessageEntry({
  message,
  all,
  isWriting = false,
  acts,
}: {
  message: Message;
  all: readonly Message[];
  isWriting?: boolean;
  /** What can be done with the message. */
  acts?: ReactNode;
}) {
  const author = authorOf(message);
  const calls = message.tool_calls ?? [];
  const answersCall =
    author === "tool" &&
    all.some((one) => one.tool_calls?.some(({ id }) => id !== undefined && id === message.tool_call_id));
  if (answersCall) return null;
  const text = textOfMessage(message);
  const files = filesIn(message);
  const Icon = icons[author];
  return (
    <>
      {(text !== "" || files.length > 0 || (calls.length === 0 && author !== "tool")) && (
        <Line kind={author} icon={<Icon size={13} />} label={names[author]}>
          <div className="bubble">
            {author === "human" ? text !== "" && <p className="said">{text}</p> : <Markdown text={text} />}
            {files.length > 0 && (
              <ul className="plain sent-files" aria-label="Sent files">
                {files.map(({ name, url }, at) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: files of a message have no other identity.
                  <li key={at}>
                    {url === null ? <FileTag name={name} /> : <img src={url} alt="Sent with the text" />}
                  </li>
                ))}
              </ul>
            )}
            {isWriting && <span className="caret" aria-hidden="true" />}
            {author === "ai" && message.usage_metadata?.total_tokens !== undefined && (
              <p className="softer">{message.usage_metadata.total_tokens.toLocaleString("en")} tokens</p>
            )}
          </div>
          {acts}
        </Line>
      )}
      {calls.map((call) => (
        <ToolEntry
          key={call.id ?? call.name}
          call={call}
          result={all.find((one) => one.tool_call_id === call.id && call.id !== undefined)}
        />
      ))}
    </>
  );
}

function FileTag({ name }: { name: string }) {
  const Icon = name === "image" ? Image : FileText;
  return (
    <span className="tag">
      <Icon size={12} /> {name}
    </span>
  );
}

/** A call of a tool, folded: its name, its arguments on one line, and its result. */
function ToolEntry({ call, result }: { call: ToolCall; result: Message | undefined }) {
  const args = Object.entries((call.args ?? {}) as Record<string, unknown>);
  const brief = args.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(" ");
  return (
    <Line kind="tool" icon={<Wrench size={12} />} label="Tool">
      <details className="tool-box">
        <summary>
          <b className="mono">{call.name}</b>
          <span className="mono softer clip">{brief}</span>
          <span className="softer tool-end">{result === undefined ? "no result yet" : "result"}</span>
          <ChevronRight size={13} />
        </summary>
        {args.length > 0 && (
          <>
            <p className="softer">Arguments</p>
            <pre className="json">{jsonOf(call.args)}</pre>
          </>
        )}
        {result !== undefined && (
          <>
            <p className="softer">Result</p>
            <pre className="json">{pretty(textOfMessage(result))}</pre>
          </>
        )}
      </details>
    </Line>
  );
}

function pretty(text: string): string {
  try {
    return jsonOf(JSON.parse(text));
  } catch {
    return text;
  }
}
