// An agent without a language model service: it streams answers, calls a tool, and asks a person before it refunds much.
import { setTimeout as sleep } from "node:timers/promises";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, interrupt, MessagesAnnotation, StateGraph } from "@langchain/langgraph";

const State = Annotation.Root({ ...MessagesAnnotation.spec, order: Annotation, amount: Annotation });
const limit = 200;
const textOf = (state) => String(state.messages.at(-1)?.text ?? "");
const wants = (state, word) => textOf(state).toLowerCase().includes(word);

const kettles = `Two of our kettles keep the water warm:

| Model | Keeps warm | Price |
|---|---|--:|
| Harbour 1.7 l | 30 min | 64 € |
| Quay 1.0 l | 2 h | 98 € |

The **Quay** is the better one for tea, because it holds a temperature that you choose.`;

async function stream(text, config) {
  const model = new FakeListChatModel({ responses: [text], sleep: Number(config.configurable?.pause_ms ?? 4) });
  return { messages: [await model.invoke("answer", config)] };
}

function lookup(state) {
  const id = /\d{3,}/.exec(textOf(state))?.[0] ?? "8841";
  const call = { id: `call_${id}`, name: "lookup_order", args: { order_id: Number(id) } };
  const order = { id: Number(id), total: id === "77" ? 20 : 340, paid: true, delivered: "2026-11-21" };
  const content = JSON.stringify(order);
  return {
    order,
    amount: order.total,
    messages: [
      new AIMessage({ content: "", tool_calls: [call] }),
      new ToolMessage({ content, tool_call_id: call.id, name: call.name }),
    ],
  };
}

function approve(state) {
  const answer = interrupt({
    question: `Approve a refund of ${state.amount} € for order ${state.order.id}?`,
    reason: "Arrived broken",
    rule: `Refunds above ${limit} € need a person`,
    amount: state.amount,
  });
  if (answer === false || answer?.approved === false) return { amount: 0 };
  return { amount: answer?.amount ?? state.amount };
}

const refund = (state, config) =>
  stream(
    state.amount === 0
      ? "I am sorry, a colleague declined the refund."
      : `Done. **${state.amount} €** are on their way back to you.`,
    config,
  );

/** A graph inside of a node: it keeps checkpoints of its own. */
const comparison = new StateGraph(State)
  .addNode("find_prices", async () => {
    await sleep(20);
    return { amount: 98 };
  })
  .addNode("write_table", (_state, config) => stream(kettles, config))
  .addEdge("__start__", "find_prices")
  .addEdge("find_prices", "write_table")
  .addEdge("write_table", "__end__")
  .compile();

export const graph = new StateGraph(State)
  .addNode("classify", async () => {
    await sleep(20);
    return {};
  })
  .addNode("answer", (_state, config) => stream(kettles, config))
  .addNode("lookup_order", lookup)
  .addNode("approve_refund", approve)
  .addNode("refund", refund)
  .addNode("fail", () => {
    throw new Error("the shop's server did not answer");
  })
  .addNode("compare", comparison)
  .addEdge("__start__", "classify")
  .addConditionalEdges(
    "classify",
    (state) => {
      if (wants(state, "fail")) return "fail";
      if (wants(state, "compare")) return "compare";
      return wants(state, "refund") || wants(state, "money") ? "lookup_order" : "answer";
    },
    ["answer", "lookup_order", "fail", "compare"],
  )
  .addEdge("compare", "__end__")
  .addEdge("lookup_order", "approve_refund")
  .addEdge("approve_refund", "refund")
  .addEdge("refund", "__end__")
  .addEdge("answer", "__end__")
  .compile();
