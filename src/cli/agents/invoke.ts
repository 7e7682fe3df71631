import { readFile } from "node:fs/promises";
import path from "node:path";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { readStdin } from "../terminal/stdin.ts";
import { harmless } from "../terminal/terminal.ts";
import { parseDuration } from "../terminal/text.ts";
import { type Agent, type AgentOptions, findAssistant, openAgent, textOf } from "./agent-api.ts";

interface InvokeOptions extends AgentOptions {
  stream?: boolean;
  thread?: string;
  assistant?: string;
  input?: string;
  timeout: string;
}

interface Message {
  type?: string;
  role?: string;
  content?: unknown;
}

/** Sends one message to an agent and prints the answer. A new thread is created unless one is named. */
export async function invoke(session: Session, [name = "", text]: string[], options: InvokeOptions): Promise<void> {
  const { terminal, context } = session;
  const input = await inputOf(session, text, options.input);
  const silenceMs = parseDuration(options.timeout);
  const agent = await openAgent(session, name, options);
  const assistant = await findAssistant(agent, options.assistant);
  const threadId = options.thread ?? (await agent.call<{ thread_id: string }>("POST", "/threads", {})).thread_id;
  const isLive = options.stream === true && session.options.json !== true;
  const body = {
    assistant_id: assistant.assistant_id,
    input,
    stream_mode: isLive ? ["values", "messages-tuple"] : ["values"],
    on_disconnect: "cancel",
  };
  let values: Record<string, unknown> | undefined;
  let written = "";
  try {
    for await (const { type, data } of agent.stream(runsOf(threadId, "/stream"), body, silenceMs)) {
      if (type === "error") throw runFailure(agent, data);
      if (data === "" || (type !== "values" && !(isLive && type === "messages"))) continue;
      const value = parse(agent, data);
      if (type === "values") values = value as Record<string, unknown>;
      else {
        const piece = harmless(pieceOf(value));
        context.stdout.write(piece);
        written += piece;
      }
    }
  } catch (error) {
    session.signal.throwIfAborted();
    throw error instanceof CliFailure ? error : cutOff(agent, threadId, (error as Error).message);
  }
  if (values === undefined) throw cutOff(agent, threadId, "it ended without a state");
  const answer = { deployment: agent.name, assistant_id: assistant.assistant_id, thread_id: threadId, values };
  if (written !== "") context.stdout.write("\n");
  session.answer(answer, () => (written === "" ? harmless(answerText(values)) : undefined));
  if ("__interrupt__" in values)
    terminal.say(`${agent.name} stopped and waits for a decision: ${pretty(values["__interrupt__"])}`);
  terminal.say(
    terminal.paintErr("dim", `  Continue: pierhead invoke ${agent.name} --thread ${harmless(threadId)} "..."`),
  );
}

export const runsOf = (threadId: string, rest: string) => `/threads/${encodeURIComponent(threadId)}/runs${rest}`;

/** Returns what the graph gets: one user message, or the JSON of `--input`. */
async function inputOf(session: Session, text: string | undefined, json: string | undefined): Promise<unknown> {
  const { context } = session;
  if (text !== undefined && json !== undefined) throw usageFailure("Give a message or --input, not both.");
  if (json !== undefined) {
    const source =
      json === "-"
        ? await readStdin(context)
        : json.startsWith("@")
          ? await readFile(path.resolve(context.cwd, json.slice(1)), "utf8").catch((error: Error) => {
              throw usageFailure(`Cannot read ${json.slice(1)}: ${error.message}`);
            })
          : json;
    try {
      return JSON.parse(source);
    } catch (error) {
      throw usageFailure(`--input is not JSON: ${(error as Error).message}`);
    }
  }
  if (text === undefined && context.stdin.isTTY === true)
    throw usageFailure("No message given.", 'Example: pierhead invoke support "hello"');
  const content = text ?? (await readStdin(context)).trim();
  if (content === "") throw usageFailure("The message is empty.");
  return { messages: [{ role: "user", content }] };
}

/** Returns the new text of a `messages` event, which is `[message, metadata]`. Only what the model says is printed. */
function pieceOf(event: unknown): string {
  const [message] = Array.isArray(event) ? (event as [Message]) : [];
  return message !== undefined && /^(ai|AIMessage)/.test(message.type ?? "") ? textOf(message.content) : "";
}

/** Returns the text of the last message, or the whole state of a graph without messages. */
function answerText(values: Record<string, unknown>): string {
  const { messages } = values;
  const last = Array.isArray(messages) ? (messages.at(-1) as Message | undefined) : undefined;
  return textOf(last?.content) || pretty(values);
}

function runFailure(agent: Agent, data: string): CliFailure {
  const { error, message } = parse(agent, data || "{}") as { error?: string; message?: string };
  const because = [error, message].filter((part) => typeof part === "string" && part !== "").join(": ");
  return new CliFailure(`The run failed in ${agent.name}.`, {
    because: because || null,
    hints: [`Its log: pierhead logs ${agent.name}`],
  });
}

/** A run whose stream ended early may go on in the agent, or have ended with it. */
const cutOff = ({ name }: { name: string }, threadId: string, because: string) =>
  new CliFailure(`The answer of ${name} was cut off: ${because}.`, {
    hints: [`Its log: pierhead logs ${name}`, `What it did: pierhead runs ${name} ${harmless(threadId)}`],
  });

function parse(agent: Agent, data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    throw new CliFailure(`${agent.name} sent an event that is not JSON.`);
  }
}

const pretty = (value: unknown) => harmless(JSON.stringify(value, null, 2));
