import { cp, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Artifact } from "../../../src/contract/listeners/assignment.ts";
import { begin } from "../../builds/fixtures.ts";

const root = path.join(import.meta.dirname, "../../..");

/** Shared by all runs, so that packages and the agent server are fetched from the registry once. */
const cacheDir = path.join(root, "node_modules/.cache/pierhead");

export type AgentArtifact = Extract<Artifact, { kind: "directory" }>;

const configs = {
  "langgraph.json": { graphs: { agent: "./src/agent.ts:graph", steps: "./src/steps.ts:graph" } },
  "guarded.json": { graphs: { agent: "./src/agent.ts:graph" }, auth: { path: "./src/guard.ts:auth" } },
  "throwing.json": { graphs: { agent: "./src/throwing.ts:graph" } },
  "missing.json": { graphs: { agent: "./src/agent.ts:nothing" } },
  "ending.json": { graphs: { agent: "./src/ending.ts:graph" } },
  "waiting.json": { graphs: { agent: "./src/waiting.ts:graph" } },
};

const sources = {
  /** Ten steps of 200 ms. On request, it waits before the last one for a file that the test writes. */
  "steps.ts": `
    import { existsSync } from "node:fs";
    import { END, MessagesValue, START, StateGraph, StateSchema } from "@langchain/langgraph";
    const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const names = Array.from({ length: 10 }, (_, index) => "step" + index);
    const graph_: any = new StateGraph(new StateSchema({ messages: MessagesValue }));
    for (const name of names) {
      graph_.addNode(name, async () => {
        const file = process.env.GO_FILE;
        if (name === "step9") while (file && !existsSync(file)) await sleep(50);
        await sleep(200);
        return { messages: [{ role: "assistant", content: name }] };
      });
    }
    [START, ...names].forEach((name, index) => graph_.addEdge(name, names[index] ?? END));
    export const graph = graph_.compile();
  `,
  "guard.ts": `
    import { Auth, HTTPException } from "@langchain/langgraph-sdk/auth";
    export const auth = new Auth().authenticate(async (request: Request) => {
      if (request.headers.get("authorization") !== "Bearer of-the-test") throw new HTTPException(401);
      return "tester";
    });
  `,
  "throwing.ts": 'throw new Error("no model key in MODEL_KEY");',
  "ending.ts": "process.exit(0);",
  "waiting.ts": "await new Promise(() => {}); export const graph = 1;",
};

/**
 * Builds the example agent with additional graphs, as a deployment's source is built.
 * @returns null when the npm registry cannot be reached, because then there is nothing to run
 */
export async function buildAgent(dir: string): Promise<AgentArtifact | null> {
  const directory = path.join(dir, "source");
  const filter = (file: string) => !["node_modules", ".langgraph_api"].includes(path.basename(file));
  await cp(path.join(root, "examples/hello-agent"), directory, { recursive: true, filter });
  for (const [name, config] of Object.entries(configs)) {
    await writeFile(path.join(directory, name), JSON.stringify({ node_version: "24", ...config }));
  }
  for (const [name, text] of Object.entries(sources)) await writeFile(path.join(directory, "src", name), text);
  const source = { kind: "template", directory, digest: dir } as const;
  const { build, log } = begin(dir, source, { configPath: "langgraph.json", cacheDir, timeoutMs: 400_000 });
  const result = await build.result;
  if (!result.ok && /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH/.test(log())) return null;
  if (!result.ok || result.artifact.kind !== "directory") throw new Error(log());
  return result.artifact;
}

export const withConfig = (artifact: AgentArtifact, config: keyof typeof configs): AgentArtifact => {
  if (artifact.start.runner !== "langgraph-js") throw new Error("not an artifact of the LangGraph.js builder");
  return { ...artifact, start: { ...artifact.start, config_path: config } };
};

/** Files of the open LangGraph.js server in a state directory. */
export const readOps = async (stateDir: string) =>
  JSON.parse(await readFile(path.join(stateDir, ".langgraph_api/.langgraphjs_ops.json"), "utf8").catch(() => "{}"))
    .json as { runs?: Record<string, { status: string }> } | undefined;
