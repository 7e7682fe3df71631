import { AIMessage } from "@langchain/core/messages";
import {
  END,
  type LangGraphRunnableConfig,
  MessagesValue,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import { z } from "zod";

/** What a thread remembers between runs. Zod fields also describe the agent's input to its clients. */
const State = new StateSchema({
  messages: MessagesValue,
  kind: z.enum(["greeting", "question", "statement"]).default("statement"),
});

/** First node: decides what the message is. What it writes is streamed to clients that ask for `custom` events. */
function read(state: typeof State.State, config: LangGraphRunnableConfig) {
  const text = lastText(state);
  const kind = /^(hi|hello|hey|good (morning|day|evening))\b/i.test(text)
    ? ("greeting" as const)
    : text.trim().endsWith("?")
      ? ("question" as const)
      : ("statement" as const);
  config.writer?.({ event: "understood", kind });
  return { kind };
}

function greet() {
  return answer("Hello! I am a LangGraph.js agent running on Pierhead. Ask me something, or tell me something.");
}

function reply(state: typeof State.State) {
  const words = lastText(state).split(/\s+/).filter(Boolean);
  const turns = state.messages.filter((message) => message.type === "human").length;
  const what = state.kind === "question" ? "A question" : "A statement";
  return answer(`${what} of ${words.length} words, and your message number ${turns} in this thread: "${words.join(" ")}"`);
}

export const graph = new StateGraph(State)
  .addNode("read", read)
  .addNode("greet", greet)
  .addNode("reply", reply)
  .addEdge(START, "read")
  .addConditionalEdges("read", (state) => (state.kind === "greeting" ? "greet" : "reply"), ["greet", "reply"])
  .addEdge("greet", END)
  .addEdge("reply", END)
  .compile();

const answer = (text: string) => ({ messages: [new AIMessage(text)] });
const lastText = (state: typeof State.State) => state.messages.at(-1)?.text ?? "";
