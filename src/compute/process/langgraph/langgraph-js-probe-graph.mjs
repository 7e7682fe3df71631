import { Annotation, StateGraph } from "@langchain/langgraph";

const Turns = Annotation.Root({ turns: Annotation({ reducer: (before, more) => before + more, default: () => 0 }) });

/** The smallest graph with a state that grows. The build runs it to check that a server works with the project's packages. */
export const graph = new StateGraph(Turns)
  .addNode("count", () => ({ turns: 1 }))
  .addEdge("__start__", "count")
  .addEdge("count", "__end__")
  .compile();
