import { ArrowUp, Square } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { Interrupt, Message } from "../../agent/types.ts";
import type { useRun } from "../../agent/use-run.ts";
import { IconButton } from "../icon-button.tsx";
import { InterruptForm } from "./interrupt-form.tsx";
import { parseJson } from "./json-text.tsx";
import { Line, MessageEntry } from "./message-entry.tsx";
import { ThreadLight } from "./thread-status.tsx";

interface ChatProps {
  messages: Message[];
  live: ReturnType<typeof useRun>["live"];
  waiting: Interrupt[];
  isFresh: boolean;
  onSend: (payload: Record<string, unknown>, shown?: Message[]) => Promise<void>;
  onAnswer: (interrupt: Interrupt, answer: unknown) => Promise<void>;
  onStop: () => Promise<void>;
  problem: string | null;
}

/** Shows a conversation while it is written, the questions of its agent, and a field for the next message. */
export function Chat(props: ChatProps) {
  const { messages, live, waiting, isFresh, onSend, onAnswer, onStop } = props;
  const problem = live.error ?? props.problem;
  const end = useRef<HTMLLIElement>(null);
  const length = JSON.stringify(messages.at(-1)?.content ?? "").length + messages.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: every new piece scrolls to the end.
  useEffect(() => {
    end.current?.scrollIntoView({ block: "nearest" });
  }, [length, waiting.length, live.isRunning, problem]);
  return (
    <section className="chat" aria-label="Chat">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard. */}
      <div className="chat-scroll" role="log" aria-label="Conversation" aria-busy={live.isRunning} tabIndex={0}>
        {isFresh && messages.length === 0 && (
          <div className="blank">
            <h2>Say something to your agent</h2>
            <p>
              The graph shows where a run is, and the state what it knows. A reload or another tab continues the same
              thread.
            </p>
          </div>
        )}
        <ol className="talk">
          {messages.map((message, at) => (
            <MessageEntry
              key={message.id ?? `m${at}`}
              message={message}
              all={messages}
              isWriting={live.isRunning && at === messages.length - 1}
            />
          ))}
          {live.isRunning && (
            <Line kind="node now" icon={<ThreadLight status="busy" isSilent />} label="Running">
              <p className="tl-line softer">{live.lastNode ?? "starting"} …</p>
            </Line>
          )}
          {!live.isRunning &&
            waiting.map((interrupt, at) => (
              <Line
                key={interrupt.id ?? at}
                kind="node wait"
                icon={<ThreadLight status="interrupted" isSilent />}
                label="Waiting for you"
              >
                <InterruptForm interrupt={interrupt} onAnswer={(answer) => onAnswer(interrupt, answer)} />
              </Line>
            ))}
          {problem !== null && (
            <Line kind="node failed" icon={<Square size={11} />} label="Error">
              <p className="tl-error" role="alert">
                {problem}
              </p>
            </Line>
          )}
          <li ref={end} aria-hidden="true" />
        </ol>
      </div>
      <Composer messages={messages} isRunning={live.isRunning} onSend={onSend} onStop={onStop} />
    </section>
  );
}

function Composer({
  messages,
  isRunning,
  onSend,
  onStop,
}: Pick<ChatProps, "messages" | "onSend" | "onStop"> & { isRunning: boolean }) {
  const [text, setText] = useState("");
  const [isJson, setJson] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  // A new conversation asks for its thread before the run begins. A second Enter would make a second thread.
  const isSending = useRef(false);
  const send = async () => {
    if (isRunning || isSending.current || text.trim() === "") return;
    setProblem(null);
    const parsed = isJson ? parseJson(text) : null;
    if (parsed !== null && "problem" in parsed) return setProblem(parsed.problem);
    const content = text;
    const message = { type: "human", content };
    const payload = parsed === null ? { input: { messages: [{ role: "user", content }] } } : { input: parsed.value };
    setText("");
    isSending.current = true;
    try {
      await onSend(payload, parsed === null ? [...messages, message] : undefined);
    } catch {
      // The conversation shows the error. A message that the agent did not accept can be sent again.
      setText((since) => (since === "" ? content : since));
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
      <textarea
        aria-label={isJson ? "Input as JSON" : "Message"}
        rows={2}
        className={isJson ? "mono" : ""}
        placeholder={isJson ? '{"topic": "kettles"}' : "Ask something"}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      <div className="row spread">
        <button type="button" className="quiet small" aria-pressed={isJson} onClick={() => setJson(!isJson)}>
          {isJson ? "Message" : "JSON input"}
        </button>
        <span className="row">
          <span className="softer send-keys">
            <kbd>⏎</kbd> send <kbd>⇧⏎</kbd> new line
          </span>
          {isRunning ? (
            <button type="button" className="small" onClick={() => void onStop()}>
              <Square size={11} /> Stop
            </button>
          ) : (
            <IconButton
              name="Send"
              icon={<ArrowUp size={15} />}
              type="submit"
              className="send"
              disabled={text.trim() === ""}
            />
          )}
        </span>
      </div>
    </form>
  );
}
