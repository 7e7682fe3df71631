// Graphs without a language model. The tests of the engine run them, and `start.mjs` serves them.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, Command, interrupt, MessagesAnnotation, Send, StateGraph } from "@langchain/langgraph";

const list = () => Annotation({ reducer: (before, more) => before.concat(more), default: () => [] });
const State = Annotation.Root({ total: Annotation, ms: Annotation, done: list(), answer: Annotation });

/** Writes who executes which step when, if a test asks for it. */
function journal(event, config, step) {
  const file = process.env.JOURNAL;
  const { run_id, thread_id } = config.configurable ?? {};
  if (file)
    appendFileSync(file, `${JSON.stringify({ event, run_id, thread_id, step, pid: process.pid, at: Date.now() })}\n`);
}

async function step(state, config) {
  const number = state.done.length + 1;
  journal("begin", config, number);
  config.writer?.({ step: number });
  await sleep(state.ms ?? 0, undefined, { signal: config.signal });
  journal("end", config, number);
  return { done: [number] };
}

/** Takes `total` steps of `ms` milliseconds. */
export const steps = new StateGraph(State)
  .addNode("step", step)
  .addEdge("__start__", "step")
  .addConditionalEdges("step", (state) => (state.done.length < (state.total ?? 1) ? "step" : "__end__"))
  .compile();

/** Asks a person, and goes on with the answer. */
export const approval = new StateGraph(State)
  .addNode("ask", () => ({ answer: interrupt({ question: "Continue?" }) }))
  .addNode("finish", (state) => ({ done: [`answered ${state.answer}`] }))
  .addEdge("__start__", "ask")
  .addEdge("ask", "finish")
  .compile();

/** Fails in its second step. */
export const failing = new StateGraph(State)
  .addNode("first", () => ({ done: ["first"] }))
  .addNode("second", () => {
    throw new Error("the second step failed");
  })
  .addEdge("__start__", "first")
  .addEdge("first", "second")
  .compile();

/** Counts its runs in the store. */
export const memory = new StateGraph(State)
  .addNode("remember", async (_state, config) => {
    const item = await config.store.get(["counters", "runs"], "count");
    const count = (item?.value.count ?? 0) + 1;
    await config.store.put(["counters", "runs"], "count", { count });
    return { answer: count };
  })
  .addEdge("__start__", "remember")
  .compile();

const model = new FakeListChatModel({ responses: ["one two three"], sleep: 1 });

/** Streams an answer in pieces, with the tokens that a model would report. */
export const chat = new StateGraph(MessagesAnnotation)
  .addNode("model", async (state) => {
    const answer = await model.invoke(state.messages);
    answer.usage_metadata = { input_tokens: 10, output_tokens: 3, total_tokens: 13 };
    return { messages: [answer] };
  })
  .addEdge("__start__", "model")
  .compile();

const child = new StateGraph(State)
  .addNode("inner", (state) => ({ done: [`inner ${state.total}`] }))
  .addEdge("__start__", "inner")
  .compile();

/** Sends work to branches, then runs a subgraph. */
export const branches = new StateGraph(State)
  .addNode("branch", (state) => ({ done: [`branch ${state.total}`] }))
  .addNode("child", child)
  .addNode("split", () => new Command({ goto: [1, 2].map((total) => new Send("branch", { total, done: [] })) }), {
    ends: ["branch"],
  })
  .addEdge("__start__", "split")
  .addEdge("branch", "child")
  .compile();
