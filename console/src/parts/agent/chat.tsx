import { Pencil, RotateCw, Square } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { Agent } from "../../agent/client.ts";
import { beforeMessage } from "../../agent/earlier.ts";
import {
  authorOf,
  checkpointIdOf,
  type Interrupt,
  type Message,
  type ThreadState,
  textOfMessage,
} from "../../agent/types.ts";
import type { useRun } from "../../agent/use-run.ts";
import { IconButton } from "../icon-button.tsx";
import { Composer } from "./composer.tsx";
import { InterruptForm } from "./interrupt-form.tsx";
import { Line, MessageEntry } from "./message-entry.tsx";
import { ThreadLight } from "./thread-status.tsx";

interface ChatProps {
  agent: Agent;
  deploymentId: string;
  assistantId: string;
  /** The checkpoints of the thread, the oldest first. */
  states: readonly ThreadState[];
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
  const { agent, deploymentId, assistantId, states, messages, live, waiting, isFresh, onSend, onAnswer, onStop } =
    props;
  const problem = live.error ?? props.problem;
  const [chosen, setEdited] = useState<Edited | null>(null);
  // What was begun in another thread does not count in this one.
  const edited = states.some((state) => checkpointIdOf(state) === chosen?.checkpoint["checkpoint_id"]) ? chosen : null;
  const earlier = (message: Message) => (live.isRunning ? null : beforeMessage(states, message));
  const end = useRef<HTMLLIElement>(null);
  const length = JSON.stringify(messages.at(-1)?.content ?? "").length + messages.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: every new piece scrolls to the end.
  useEffect(() => {
    end.current?.scrollIntoView({ block: "nearest" });
  }, [length, waiting.length, live.isRunning, problem]);
  return (
    <section className="chat" aria-label="Chat">
      <h2 className="sr">Conversation</h2>
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
              acts={<MessageActs message={message} from={earlier(message)} onEdit={setEdited} onSend={onSend} />}
            />
          ))}
          {live.isRunning && (
            <Line kind="node now" icon={<ThreadLight status="busy" isSilent />} label="Running">
              <p className="tl-line softer">{live.lastNode?.replaceAll(":", " › ") ?? "starting"} …</p>
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
      <Composer
        {...{ agent, deploymentId, assistantId, edited, onStop }}
        messages={edited === null ? messages : messages.slice(0, edited.at)}
        isRunning={live.isRunning}
        onCancelEdit={() => setEdited(null)}
        onSend={async (payload, shown) => {
          await onSend(edited === null ? payload : { ...payload, checkpoint: edited.checkpoint }, shown);
          setEdited(null);
        }}
      />
    </section>
  );
}

interface Edited {
  text: string;
  /** Index of the message in the conversation. */
  at: number;
  checkpoint: Record<string, unknown>;
}

/** Writes a message again or runs again from it: the thread forks before it. */
function MessageActs(props: {
  message: Message;
  from: ReturnType<typeof beforeMessage>;
  onEdit: (edited: Edited) => void;
  onSend: ChatProps["onSend"];
}) {
  const { message, from, onEdit, onSend } = props;
  if (authorOf(message) !== "human" || from === null) return null;
  const { at, before, input } = from;
  return (
    <span className="message-acts">
      {before !== null && (
        <IconButton
          name="Write again"
          icon={<Pencil size={12} />}
          onClick={() => onEdit({ text: textOfMessage(message), at, checkpoint: before })}
        />
      )}
      <IconButton
        name="Run again from here"
        icon={<RotateCw size={12} />}
        onClick={() => void onSend({ input: null, checkpoint: input }).catch(() => undefined)}
      />
    </span>
  );
}
