import { AIMessage } from "@langchain/core/messages";
import {
  END,
  type LangGraphRunnableConfig,
  MessagesValue,
  ReducedValue,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import { z } from "zod";
import { calculate } from "./calculate.ts";
import { type Intent, understand } from "./understand.ts";

/**
 * What a thread remembers between runs: the conversation, and the facts it was told. Because the fields are zod schemas,
 * clients can ask the agent what it takes.
 */
const State = new StateSchema({
  messages: MessagesValue,
  facts: new ReducedValue(
    z.record(z.string(), z.string()).default(() => ({})),
    { reducer: (known: Record<string, string>, told: Record<string, string>) => ({ ...known, ...told }) },
  ),
  intent: z.custom<Intent>().optional(),
});
type State = typeof State.State;

/** Decides which node answers. Clients that stream `custom` events see the decision before the answer. */
function read(state: State, config: LangGraphRunnableConfig) {
  const intent = understand(state.messages.at(-1)?.text ?? "");
  config.writer?.({ event: "understood", intent: intent.kind });
  return { intent };
}

function greet({ facts }: State) {
  const name = facts["name"] ? `, ${facts["name"]}` : "";
  return say(`Hello${name}! I can calculate ("what is 6 * 7?"), remember ("my name is Ada") and recall ("what is my name?").`);
}

function solve({ intent }: State) {
  if (intent?.kind !== "calculate") return {};
  try {
    return say(`${intent.expression} = ${calculate(intent.expression)}`);
  } catch (error) {
    return say(`I cannot calculate that: ${(error as Error).message}.`);
  }
}

function remember({ intent }: State) {
  if (intent?.kind !== "remember") return {};
  return { facts: { [intent.what]: intent.value }, ...say(`I will remember that your ${intent.what} is ${intent.value}.`) };
}

function recall({ intent, facts }: State) {
  if (intent?.kind !== "recall") return {};
  const value = facts[intent.what];
  return say(value ? `Your ${intent.what} is ${value}.` : `You have not told me your ${intent.what} in this thread.`);
}

function listen({ messages }: State) {
  const heard = messages.filter((message) => message.type === "human").length;
  return say(`I heard you. That was message ${heard} of this thread; say "hello" to see what I can do.`);
}

const nodeOf = { greet: "greet", calculate: "solve", remember: "remember", recall: "recall", other: "listen" } as const;

export const graph = new StateGraph(State)
  .addNode({ read, greet, solve, remember, recall, listen })
  .addEdge(START, "read")
  .addConditionalEdges("read", ({ intent }) => nodeOf[intent?.kind ?? "other"], Object.values(nodeOf))
  .addEdge("greet", END)
  .addEdge("solve", END)
  .addEdge("remember", END)
  .addEdge("recall", END)
  .addEdge("listen", END)
  .compile();

const say = (text: string) => ({ messages: [new AIMessage(text)] });
