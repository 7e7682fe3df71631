import { cp, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Artifact } from "../../../src/contract/listeners/assignment.ts";
import { begin } from "../../builds/fixtures.ts";

const root = path.join(import.meta.dirname, "../../..");

/** Shared by all runs, so that packages are fetched from the index once. */
const cacheDir = path.join(root, "node_modules/.cache/pierhead");

export type AgentArtifact = Extract<Artifact, { kind: "directory" }>;

const graph = (name: string) => ({ graphs: { agent: `./src/hello_agent/${name}` } });

const configs = {
  "langgraph.json": {
    graphs: {
      agent: "./src/hello_agent/agent.py:graph",
      steps: "hello_agent.steps:graph",
      files: "./src/hello_agent/files.py:graph",
      billed: "./src/hello_agent/billed.py:graph",
      streamed: "./src/hello_agent/streamed.py:graph",
    },
    env: { FROM_CONFIG: "config", FROM_BOTH: "config" },
  },
  "guarded.json": { ...graph("agent.py:graph"), auth: { path: "./src/hello_agent/guard.py:auth" } },
  "throwing.json": graph("throwing.py:graph"),
  "importing.json": graph("importing.py:graph"),
  "missing.json": graph("agent.py:nothing"),
  "ending.json": graph("ending.py:graph"),
  "syntax.json": graph("syntax.py:graph"),
  "embedding.json": {
    ...graph("agent.py:graph"),
    store: { index: { dims: 3, embed: "./src/hello_agent/embedding.py:embed" } },
  },
};

const one = (body: string) => `
import os
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
${body}
`;

const sources = {
  /** Ten steps of 200 ms. On request, it waits before the last one for a file that the test writes. */
  "steps.py": one(`
import asyncio
def step_of(name):
    async def step(state: MessagesState):
        file = os.environ.get("GO_FILE")
        while name == "step9" and file and not os.path.exists(file):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        return {"messages": [AIMessage(name)]}
    return step
builder = StateGraph(MessagesState)
names = [f"step{number}" for number in range(10)]
for name in names:
    builder.add_node(name, step_of(name))
for before, after in zip([START, *names], [*names, END]):
    builder.add_edge(before, after)
graph = builder.compile()`),
  /** Opens relative paths, as code in a project does, and blocks meanwhile. */
  "files.py": one(`
greeting = open("src/hello_agent/greeting.txt").read().strip()
def answer(state: MessagesState):
    with open("notes.txt", "a") as notes:
        notes.write("a note")
    values = [os.environ[name] for name in ("FROM_CONFIG", "FROM_BOTH", "DATABASE_URI")]
    return {"messages": [AIMessage(" ".join([greeting, *values]))]}
graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").add_edge("answer", END).compile()`),
  /** Calls a model that reports its tokens twice, and keeps one of the answers. */
  "billed.py": one(`
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
model = FakeMessagesListChatModel(responses=[AIMessage("one two three", usage_metadata=usage)])
def answer(state: MessagesState):
    model.invoke("a guess")
    return {"messages": [model.invoke(state["messages"])]}
graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").add_edge("answer", END).compile()`),
  /** Streams ten answers at once, in pieces, and answers with how often this needed another thread. */
  "streamed.py": one(`
import asyncio
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
class Model(GenericFakeChatModel):
    async def _astream(self, messages, stop=None, run_manager=None, **_):
        for number in range(20):
            await asyncio.sleep(0)
            usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13} if number == 19 else None
            chunk = ChatGenerationChunk(message=AIMessageChunk("a ", usage_metadata=usage))
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
model = Model(messages=iter([]))
async def stream():
    async for _ in model.astream("hello"):
        pass
async def answer(state: MessagesState):
    loop = asyncio.get_running_loop()
    calls, run = [], loop.run_in_executor
    loop.run_in_executor = lambda executor, call, *args: calls.append(call) or run(executor, call, *args)
    try:
        await asyncio.gather(*(stream() for _ in range(10)))
    finally:
        del loop.run_in_executor
    return {"messages": [AIMessage(f"{len(calls)} calls in threads")]}
graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").add_edge("answer", END).compile()`),
  "greeting.txt": "good day\n",
  "guard.py": `
from langgraph_sdk import Auth
auth = Auth()
@auth.authenticate
async def authenticate(authorization: str | None):
    if authorization != "Bearer of-the-test":
        raise Auth.exceptions.HTTPException(status_code=401, detail="who?")
    return "tester"
`,
  "throwing.py": 'raise RuntimeError("no model key in MODEL_KEY")',
  "importing.py": "import no_such_module_at_all",
  "ending.py": "import sys; sys.exit(0)",
  "syntax.py": "def graph(:",
  "embedding.py": 'raise RuntimeError("no embedding key in MODEL_KEY")',
};

/**
 * Builds the Python template with additional graphs, as a deployment's source is built.
 * @returns null when Python or a package index is missing, because then there is nothing to run
 */
export async function buildPythonAgent(dir: string): Promise<AgentArtifact | null> {
  const directory = path.join(dir, "python-source");
  await cp(path.join(root, "templates/langgraph-python-hello"), directory, { recursive: true });
  for (const [name, config] of Object.entries(configs)) {
    await writeFile(path.join(directory, name), JSON.stringify({ dependencies: ["."], ...config }));
  }
  // Inside the package, so that the template's environment can be used here, too.
  const packageDir = path.join(directory, "src/hello_agent");
  for (const [name, text] of Object.entries(sources)) await writeFile(path.join(packageDir, name), text);
  const source = { kind: "template", directory, digest: dir } as const;
  const { build, log } = begin(dir, source, { configPath: "langgraph.json", cacheDir, timeoutMs: 500_000 });
  const result = await build.result;
  const missing =
    /NewConnectionError|Temporary failure in name resolution|Network is unreachable|The agent needs Python/;
  if (!result.ok && missing.test(log())) return null;
  if (!result.ok || result.artifact.kind !== "directory") throw new Error(log());
  return result.artifact;
}

export const withConfig = (artifact: AgentArtifact, config: keyof typeof configs): AgentArtifact => {
  if (artifact.start.runner !== "langgraph-python") throw new Error("not an artifact of the Python builder");
  return { ...artifact, start: { ...artifact.start, config_path: config } };
};
