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

/**
 * Copies a graph with what the project has set on it, such as a traced method, which `withConfig` alone leaves out. Returns the
 * graph itself if it answers with a wrapper, on which checkpointer and store would have no effect.
 */
function copyOf(made: unknown): unknown {
  if (!isGraph(made)) return made;
  const copy = made.withConfig({}) as Graph;
  if (Object.getPrototypeOf(copy) !== Object.getPrototypeOf(made)) return made;
  for (const name of Reflect.ownKeys(made)) {
    if (Object.hasOwn(copy, name)) continue;
    Object.defineProperty(copy, name, Object.getOwnPropertyDescriptor(made, name) as PropertyDescriptor);
  }
  return copy;
}

const isGraph = (value: unknown): value is Graph =>
  typeof value === "object" && value !== null && typeof (value as Partial<Graph>).withConfig === "function";
