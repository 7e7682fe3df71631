interface Graph {
  withConfig(config: object): unknown;
}

type Factory = (...input: unknown[]) => unknown;

const copying = new WeakSet<Factory>();

/**
 * Makes the server use a copy of the graph for each request. The stock server sets checkpointer and store on the compiled graph
 * itself, which all requests share: a run without a thread would take the checkpointer away from runs that begin at the same time,
 * and their state would be lost.
 */
export function copyForEachRequest(graphs: Record<string, unknown>, graphId: string): void {
  const graph = graphs[graphId];
  if (typeof graph === "function" && copying.has(graph as Factory)) return;
  if (typeof graph === "function") graphs[graphId] = remembered(async (...input) => copyOf(await graph(...input)));
  else if (isGraph(graph)) graphs[graphId] = remembered(() => copyOf(graph));
}

function remembered(factory: Factory): Factory {
  copying.add(factory);
  return factory;
}

const copyOf = (made: unknown) => (isGraph(made) ? made.withConfig({}) : made);

const isGraph = (value: unknown): value is Graph =>
  typeof value === "object" && value !== null && typeof (value as Partial<Graph>).withConfig === "function";
