import { readFile } from "node:fs/promises";
import path from "node:path";
import { createAgentRepository } from "../support/agent-repository.ts";

const example = path.resolve("examples/hello-agent");

/** Each step notes its number. A step that ran twice would be in the state twice. */
const graph = `
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({
  total: Annotation<number>(),
  ms: Annotation<number>(),
  done: Annotation<number[]>({ reducer: (all, more) => all.concat(more), default: () => [] }),
});
export const graph = new StateGraph(State)
  .addNode("step", async (state) => {
    await new Promise((resolve) => setTimeout(resolve, state.ms ?? 10));
    return { done: [state.done.length + 1] };
  })
  .addEdge(START, "step")
  .addConditionalEdges("step", (state) => (state.done.length < state.total ? "step" : END))
  .compile();
`;

/** A LangGraph.js project with the graph `steps`. @param engine of langgraph.json */
export async function stepsRepository(engine?: string) {
  const files = ["package.json", "package-lock.json", "src/agent.ts"].map(async (file) => {
    const text = await readFile(path.join(example, file), "utf8").catch(() => null);
    return text === null ? [] : [[file, text] as const];
  });
  return createAgentRepository({
    ...Object.fromEntries((await Promise.all(files)).flat()),
    "langgraph.json": JSON.stringify({ node_version: "24", engine, graphs: { steps: "./src/steps.ts:graph" } }),
    "src/steps.ts": graph,
  });
}
