import { AIMessage } from "@langchain/core/messages";
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";

// Counts the messages of the thread, so that the second answer shows whether the server kept the first one.
function answer({ messages }) {
  const said = messages.filter((message) => message.getType() === "human");
  return { messages: [new AIMessage(`${said.length}: ${said.at(-1).content}`)] };
}

export const graph = new StateGraph(MessagesAnnotation)
  .addNode("answer", answer)
  .addEdge("__start__", "answer")
  .addEdge("answer", "__end__")
  .compile();
