import { SystemMessage } from "@langchain/core/messages";
import { END, type LangGraphRunnableConfig, MessagesValue, START, StateGraph, StateSchema } from "@langchain/langgraph";
import { OfflineModel } from "./offline-model.ts";
import { OpenAiCompatibleModel } from "./openai-compatible-model.ts";

/** The state of a thread: only the conversation. */
const State = new StateSchema({ messages: MessagesValue });

const { OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL, SYSTEM_PROMPT } = process.env;

const model = OPENAI_API_KEY
  ? new OpenAiCompatibleModel({
      apiKey: OPENAI_API_KEY,
      baseUrl: OPENAI_BASE_URL ?? "https://api.openai.com/v1",
      model: OPENAI_MODEL ?? "gpt-4o-mini",
    })
  : new OfflineModel({});

const system = new SystemMessage(SYSTEM_PROMPT ?? "You are a helpful assistant. Answer briefly and plainly.");

/** Calls the model. Passing `config` streams its tokens as `messages` events while it generates them. */
async function chat(state: typeof State.State, config: LangGraphRunnableConfig) {
  return { messages: [await model.invoke([system, ...state.messages], config)] };
}

export const graph = new StateGraph(State)
  .addNode("chat", chat)
  .addEdge(START, "chat")
  .addEdge("chat", END)
  .compile();
