import type { PythonEntryKind } from "./python-entries.ts";

/**
 * How Pierhead runs one kind of server that has no configuration file. `$PORT` and `$HOST` stand for the address, which
 * the compute driver chooses; the words in braces for what was found in the project.
 */
export type Preset = NodePreset | PythonPreset;

interface CommonPreset {
  id: string;
  /** As its makers write it. */
  name: string;
  /** The project depends on one of them. Empty: any project. */
  packages: readonly string[];
}

export interface NodePreset extends CommonPreset {
  language: "node";
  /** One of its files has such a name, because the package may also be a tool beside the server; absent: any. */
  files?: RegExp;
  /** The same in the root of a workspace, where the package is often for the members. */
  filesInWorkspace?: RegExp;
  /** Scripts of package.json that start the server, in order. A `*` at the end stands for any rest. */
  scripts: readonly string[];
  /** Start command; null: the script, or else the server file. */
  start: string | null;
  /** Start command of a project whose script is missing, or starts a server for development. */
  otherwise?: string;
  /** Whether it serves only the pages of a project that has no server; absent: no. */
  isForPages?: boolean;
  /** Program that builds a project without a build script; null: nothing. */
  build: string | null;
  /** Whether the server takes its port from its code only. Absent: the sources decide. */
  hasOwnPort?: true;
}

export interface PythonPreset extends CommonPreset {
  language: "python";
  entry: PythonEntryKind;
  /** `{app}`: module and variable; `{file}`, `{module}`, `{directory}`, `{options}` of the entry. */
  start: string;
  /** Packages that the start command needs; installed unless the project has one of them. */
  adds: readonly string[];
  /** Programs beside the server, whose packages may exclude those of the project. */
  tools?: readonly string[];
  /** A file that is added to the project, with the same words in braces as the start command. */
  file?: AddedFile;
}

/** A file that Pierhead adds to a project, in its directory. */
export interface AddedFile {
  name: string;
  text: string;
}

const node = (id: string, name: string, packages: string[], how: Partial<NodePreset> = {}): NodePreset => {
  return { id, name, language: "node", packages, scripts: ["start"], start: null, build: null, ...how };
};

const asgi = { entry: "asgi", start: "python -m uvicorn {app} --host $HOST --port $PORT", adds: ["uvicorn"] } as const;
const factory = { ...asgi, entry: "asgi-factory", start: `${asgi.start} --factory` } as const;
const wsgi = { entry: "wsgi", start: "python -m gunicorn {app} --bind $HOST:$PORT", adds: ["gunicorn"] } as const;
const program = { entry: "program", start: "python {program} {options}", adds: [] } as const;
type How = Pick<PythonPreset, "entry" | "start" | "adds" | "tools" | "file">;

const python = (id: string, name: string, packages: string[], how: How): PythonPreset => {
  return { id, name, language: "python", packages, ...how };
};

/** A framework for agents without a server of its own, or whose server is an ASGI application. */
const agents = (id: string, name: string, packages: string[]) => [
  python(id, name, packages, asgi),
  python(id, name, packages, factory),
  python(id, name, packages, program),
];

/** Servers of the MCP with several transports have a script for each. */
export const mcpScripts = ["start:http", "start:streamableHttp", "start", "start:sse"];

export const stdioPreset = "mcp-stdio";

/** A server of the MCP that speaks over standard input. A proxy starts it and offers it over HTTP, at /mcp and /sse. */
const stdio = (entry: PythonEntryKind, command: string) =>
  python(stdioPreset, "MCP server over standard input", ["mcp", "fastmcp"], {
    entry,
    start: `mcp-proxy --pass-environment --host $HOST --port $PORT -- ${command}`,
    adds: [],
    tools: ["mcp-proxy>=0.8"],
  });

/**
 * Makes the application of the MCP SDK. Versions before 1.8 have no application for the newer transport, so it gets one for server-sent
 * events, whose address for messages is relative because the gateway adds a prefix. The SDK allows requests for localhost only, unless the project names hosts, and no
 * setting changes that: version 1 keeps it in the server, version 2 takes the host when it makes the application.
 */
const mcpHost: AddedFile = {
  name: "pierhead_mcp.py",
  text: `import inspect

from {module} import {name} as server

LOCALHOST = {"127.0.0.1:*", "localhost:*", "[::1]:*"}


def sse_app():
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = SseServerTransport("messages/")

    async def stream(request):
        async with transport.connect_sse(request.scope, request.receive, request._send) as (reading, writing):
            own = server._mcp_server
            await own.run(reading, writing, own.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", stream), Mount("/messages/", app=transport.handle_post_message)])


def app():
    make = getattr(server, "streamable_http_app", sse_app)
    settings = getattr(server, "settings", None)
    security = getattr(settings, "transport_security", None)
    if security is not None and set(security.allowed_hosts) == LOCALHOST:
        settings.transport_security = None
    return make(host="0.0.0.0") if "host" in inspect.signature(make).parameters else make()
`,
};

const mcpSdk: How = {
  entry: "mcp",
  start: "python -m uvicorn pierhead_mcp:app --host $HOST --port $PORT --factory",
  adds: ["uvicorn"],
  file: mcpHost,
};

/** Starts `adk api_server`, without `--host` in versions that lack the option. They listen on every address. */
const adkServer: AddedFile = {
  name: "pierhead_adk.py",
  text: `import os
import sys
import tempfile

from google.adk.cli.cli_tools_click import main

known = {option for one in main.commands["api_server"].params for option in one.opts}
arguments = sys.argv[1:]
if "--host" not in known and "--host" in arguments:
    at = arguments.index("--host")
    del arguments[at : at + 2]
# ADK takes the parent directory of an agent. The parent of a whole project contains other things.
if arguments[-1] == "." and os.path.isfile("agent.py"):
    own = os.path.basename(os.getcwd())
    above = tempfile.mkdtemp()
    os.symlink(os.getcwd(), os.path.join(above, own if own.isidentifier() else "root"))
    arguments[-1] = above
main(["api_server", *arguments])
`,
};

/** Serves the workflows that a pyproject.toml names for `llamactl`, which serves them in LlamaIndex's own cloud. */
const workflowServer: AddedFile = {
  name: "pierhead_workflows.py",
  text: `import importlib
import os
import sys
import tomllib

try:
    from llama_agents.server import WorkflowServer
except ImportError:
    from workflows.server import WorkflowServer

sys.path[:0] = [one for one in (os.getcwd(), os.path.join(os.getcwd(), "src")) if os.path.isdir(one)]
with open("pyproject.toml", "rb") as file:
    tables = tomllib.load(file)["tool"]
names = next(found for table in ("llamaagents", "llamadeploy") if (found := tables.get(table, {}).get("workflows")))
server = WorkflowServer()
for name, target in names.items():
    module, _, attribute = target.partition(":")
    server.add_workflow(name, getattr(importlib.import_module(module), attribute or "workflow"))
app = server.app
`,
};

/** Directory of a source for packages that the start command needs beside those of the project. */
export const addedDirName = ".pierhead-node";

const addedFile = (file: string) => `./${addedDirName}/node_modules/${file}`;

/**
 * Packages that Pierhead adds to a JavaScript project: TypeScript for Node, a host for an application that opens no port, a
 * proxy that offers an MCP server over HTTP, at /mcp and /sse, and Bun and Deno, which machines with Node often lack.
 */
export const added = {
  tsx: { package: "tsx@4.23.15", file: addedFile("tsx/dist/loader.mjs") },
  srvx: { package: "srvx@1.0.8", file: addedFile("srvx/bin/srvx.mjs") },
  mcpProxy: { package: "mcp-proxy@6.7.19", file: addedFile("mcp-proxy/dist/bin/mcp-proxy.mjs") },
  // The installation scripts of the last two put the program for the machine in its place.
  bun: { package: "bun@1.4.4", file: addedFile("bun/install.js") },
  deno: { package: "deno@2.9.6", file: addedFile("deno/install.cjs") },
} as const;

const chainlit: How = {
  entry: "chainlit",
  start: "chainlit run {file} --headless --host $HOST --port $PORT",
  adds: ["chainlit"],
};
const streamlit: How = {
  entry: "streamlit",
  start: "streamlit run {file} --server.headless true --server.address $HOST --server.port $PORT",
  adds: ["streamlit"],
};
const robyn: How = {
  entry: "robyn",
  start: "ROBYN_HOST=$HOST ROBYN_PORT=$PORT python {program}",
  adds: ["robyn"],
};
const gradio: How = {
  entry: "gradio",
  start: "GRADIO_SERVER_NAME=$HOST GRADIO_SERVER_PORT=$PORT python {program} {options}",
  adds: ["gradio"],
};
const haystack = ["hayhooks", "haystack-ai"];

const astroSite = /^(?:astro\.config\.[cm]?[jt]s$|src\/pages\/)/;

/** The presets. The first that fits a project is used, so a framework stands before the one on which it builds. */
export const presets: readonly Preset[] = [
  node("next", "Next.js", ["next"], {
    filesInWorkspace: /^(?:src\/)?(?:app|pages)\//,
    start: "next start -H $HOST -p $PORT",
    build: "next build",
  }),
  node("nuxt", "Nuxt", ["nuxt"], { start: "node .output/server/index.mjs", build: "nuxt build" }),
  node("sveltekit", "SvelteKit", ["@sveltejs/adapter-node"], { start: "node build", build: "vite build" }),
  // Without an adapter for Node, only its own preview runs the built server.
  node("sveltekit", "SvelteKit", ["@sveltejs/kit"], {
    start: "vite preview --host $HOST --port $PORT",
    build: "vite build",
  }),
  node("astro", "Astro", ["@astrojs/node"], {
    files: astroSite,
    start: "node dist/server/entry.mjs",
    build: "astro build",
  }),
  node("astro", "Astro", ["astro"], {
    files: astroSite,
    start: "astro preview --host $HOST --port $PORT",
    build: "astro build",
  }),
  node("tanstack-start", "TanStack Start", ["@tanstack/react-start", "@tanstack/solid-start"], {
    otherwise: "vite preview --host $HOST --port $PORT",
    build: "vite build",
  }),
  // The build is a project of its own, with the packages of the directory above.
  node("adonis", "AdonisJS", ["@adonisjs/core"], { start: "cd build && node bin/server.js", build: "node ace build" }),
  node("angular", "Angular", ["@angular/ssr"], { scripts: ["serve:ssr:*", "start:ssr", "start"], build: "ng build" }),
  // Vite's own preview serves the built pages.
  node("vite", "Vite", ["vite"], {
    files: /^index\.html$/,
    isForPages: true,
    otherwise: "vite preview --host $HOST --port $PORT",
    build: "vite build",
  }),
  node("mastra", "Mastra", ["mastra"], { start: "node .mastra/output/index.mjs", build: "mastra build" }),
  node("nestjs", "NestJS", ["@nestjs/core"], { scripts: ["start:prod", "start"], build: "nest build" }),
  node(
    "mcp-typescript",
    "MCP TypeScript SDK",
    ["@modelcontextprotocol/sdk", "@modelcontextprotocol/server", "fastmcp"],
    { scripts: mcpScripts },
  ),
  // A worker for calls, which serves its health check on a port of its own.
  node("livekit-js", "LiveKit Agents", ["@livekit/agents"], { hasOwnPort: true }),
  node("a2a-javascript", "A2A JavaScript SDK", ["@a2a-js/sdk"]),
  node("voltagent", "VoltAgent", ["@voltagent/core"]),
  node("genkit", "Genkit", ["genkit"]),
  node("openai-agents-js", "OpenAI Agents SDK", ["@openai/agents"]),
  node("llamaindex-ts", "LlamaIndex.TS", ["llamaindex", "@llamaindex/server", "@llamaindex/workflow"]),
  node("ai-sdk", "Vercel AI SDK", ["ai"]),
  node("hono", "Hono", ["hono"]),
  node("fastify", "Fastify", ["fastify"]),
  node("express", "Express", ["express"]),
  node("koa", "Koa", ["koa"]),
  node("elysia", "Elysia", ["elysia"]),
  node("node", "Node.js", []),

  python("aegra", "Aegra", ["aegra-cli", "aegra-api"], asgi),
  python("agno", "Agno", ["agno"], asgi),
  python("google-adk", "Google ADK", ["google-adk"], asgi),
  python("google-adk", "Google ADK", ["google-adk"], program),
  python("google-adk", "Google ADK", ["google-adk"], {
    entry: "adk",
    start: "python pierhead_adk.py --host $HOST --port $PORT {agents}",
    adds: [],
    file: adkServer,
  }),
  python("llama-index", "LlamaIndex Workflows", [], {
    entry: "workflows",
    start: "python -m uvicorn {app}.app --host $HOST --port $PORT",
    adds: ["uvicorn"],
  }),
  python("llama-index", "LlamaIndex Workflows", [], {
    entry: "workflow-names",
    start: "python -m uvicorn pierhead_workflows:app --host $HOST --port $PORT",
    adds: ["llama-agents-server"],
    file: workflowServer,
  }),
  ...agents("llama-index", "LlamaIndex", ["llama-index", "llama-index-core", "llama-index-workflows"]),
  python("haystack", "Haystack", haystack, asgi),
  python("haystack", "Haystack", haystack, factory),
  python("haystack", "Hayhooks", haystack, {
    entry: "hayhooks",
    start: "hayhooks run --host $HOST --port $PORT --pipelines-dir {agents}",
    adds: ["hayhooks"],
  }),
  python("haystack", "Haystack", haystack, program),
  ...agents("a2a-python", "A2A Python SDK", ["a2a-sdk"]),
  // A worker for calls, which serves its health check on a port of its own.
  python("livekit", "LiveKit Agents", ["livekit-agents"], {
    entry: "livekit",
    start: "python {program} start",
    adds: [],
  }),
  python("bedrock-agentcore", "Amazon Bedrock AgentCore", ["bedrock-agentcore"], asgi),
  python("pipecat", "Pipecat", ["pipecat-ai"], {
    entry: "pipecat",
    start: "python {program} --host $HOST --port $PORT",
    adds: [],
  }),
  ...agents("pydantic-ai", "Pydantic AI", ["pydantic-ai", "pydantic-ai-slim"]),
  ...agents("openai-agents", "OpenAI Agents SDK", ["openai-agents"]),
  ...agents("crewai", "CrewAI", ["crewai"]),
  ...agents("agno", "Agno", ["agno"]),
  ...agents("autogen", "AutoGen", ["autogen-agentchat", "autogen-core", "ag2", "pyautogen"]),
  ...agents("langgraph", "LangGraph", ["langgraph", "langchain"]),
  // An application that the project makes has settings of its own, such as sessions or other routes.
  python("fastmcp", "FastMCP", ["fastmcp"], asgi),
  python("fastmcp", "FastMCP", ["fastmcp"], {
    entry: "fastmcp",
    start: "python -m uvicorn {app}.http_app --factory --host $HOST --port $PORT",
    adds: ["uvicorn"],
  }),
  python("mcp-python", "MCP Python SDK", ["mcp"], asgi),
  python("mcp-python", "MCP Python SDK", ["mcp", "fastmcp"], mcpSdk),
  python("mcp-python", "MCP Python SDK", ["mcp"], { ...mcpSdk, entry: "fastmcp" }),
  python("fastapi", "FastAPI", ["fastapi"], asgi),
  python("fastapi", "FastAPI", ["fastapi"], factory),
  python("starlette", "Starlette", ["starlette"], asgi),
  python("django", "Django", ["django"], { ...wsgi, entry: "django" }),
  python("django", "Django", ["django"], { ...asgi, entry: "django-asgi" }),
  python("flask", "Flask", ["flask"], wsgi),
  python("flask", "Flask", ["flask"], {
    ...wsgi,
    entry: "wsgi-factory",
    start: "python -m gunicorn '{app}()' --bind $HOST:$PORT",
  }),
  python("chainlit", "Chainlit", ["chainlit"], chainlit),
  python("streamlit", "Streamlit", ["streamlit"], streamlit),
  python("quart", "Quart", ["quart"], asgi),
  python("quart", "Quart", ["quart"], factory),
  python("litestar", "Litestar", ["litestar"], asgi),
  python("litestar", "Litestar", ["litestar"], factory),
  python("sanic", "Sanic", ["sanic"], asgi),
  python("sanic", "Sanic", ["sanic"], factory),
  python("robyn", "Robyn", ["robyn"], robyn),
  python("asgi", "an ASGI application", [], asgi),
  python("wsgi", "a WSGI application", [], wsgi),
  python("asgi", "an ASGI application", [], factory),
  python("python", "a Python program", [], program),
  // Gradio is often a demonstration beside the server itself.
  python("gradio", "Gradio", ["gradio"], gradio),
  python("python", "a Python program", [], { entry: "script", start: "{module} {options}", adds: [] }),
  // Their package may come with another one of the project.
  python("chainlit", "Chainlit", [], chainlit),
  python("streamlit", "Streamlit", [], streamlit),
  python("robyn", "Robyn", [], robyn),
  python("gradio", "Gradio", [], gradio),
  stdio("stdio-program", "python {program}"),
  stdio("stdio-script", "{module}"),
];
