import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { presets } from "../../src/domain/detection/presets.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

async function detect(files: Files) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const packageJson = (packages: string[], more: object = {}) =>
  JSON.stringify({ dependencies: Object.fromEntries(packages.map((name) => [name, "1"])), ...more });
const proxy = "mcp-proxy --pass-environment --host $HOST --port $PORT";
const stdioServer = 'if __name__ == "__main__":\n  asyncio.run(stdio_server())';
const start = { scripts: { start: "node dist/index.js" } };
const built = { scripts: { build: "tsc", start: "node dist/index.js" } };
const pyproject = (...packages: string[]) =>
  `[project]\nname = "x"\ndependencies = [\n${packages.map((name) => `  "${name}",\n`).join("")}]\n`;
const worker = 'if __name__ == "__main__":\n  cli.run_app(server)';
const uvicorn = (app: string) => `python -m uvicorn ${app} --host $HOST --port $PORT`;

/** One project per preset and way to be recognized: its files, the preset, its start command and its build. */
const projects: [string, Files, string, string, (string | null)?][] = [
  ["a start script", { "package.json": packageJson([], start) }, "node", "script:start"],
  ["a server file", { "package.json": "{}", "server.js": "" }, "node", "node server.js"],
  [
    "a main file",
    { "package.json": JSON.stringify({ main: "./lib/http.js" }), "lib/http.js": "" },
    "node",
    "node lib/http.js",
  ],
  [
    "a TypeScript file",
    { "package.json": packageJson(["tsx", "hono"]), "src/index.ts": "" },
    "hono",
    "tsx src/index.ts",
  ],
  [
    "Next.js",
    { "package.json": packageJson(["next", "ai"], built) },
    "next",
    "next start -H $HOST -p $PORT",
    "script:build",
  ],
  [
    "Next.js without scripts",
    { "package.json": packageJson(["next"]) },
    "next",
    "next start -H $HOST -p $PORT",
    "next build",
  ],
  ["LiveKit", { "requirements.txt": "livekit-agents", "a.py": worker }, "livekit", "python a.py start"],
  ["Haystack", { "requirements.txt": "haystack-ai", "main.py": "app = FastAPI()" }, "haystack", uvicorn("main:app")],
  ["Nuxt", { "package.json": packageJson(["nuxt"]) }, "nuxt", "node .output/server/index.mjs", "nuxt build"],
  [
    "Mastra",
    { "package.json": packageJson(["@mastra/core", "mastra"]) },
    "mastra",
    "node .mastra/output/index.mjs",
    "mastra build",
  ],
  [
    "NestJS",
    {
      "package.json": packageJson(["@nestjs/core"], {
        scripts: { build: "nest build", start: "nest start", "start:prod": "node dist/main" },
      }),
    },
    "nestjs",
    "script:start:prod",
    "script:build",
  ],
  ["the AI SDK", { "package.json": packageJson(["ai", "express"], start) }, "ai-sdk", "script:start"],
  ["Hono", { "package.json": packageJson(["hono"], built) }, "hono", "script:start", "script:build"],
  ["Fastify", { "package.json": packageJson(["fastify"], start) }, "fastify", "script:start"],
  ["Express", { "package.json": packageJson(["express"], start) }, "express", "script:start"],
  ["Koa", { "package.json": packageJson(["koa"], start) }, "koa", "script:start"],
  ["Elysia", { "package.json": packageJson(["elysia"], start) }, "elysia", "script:start"],
  ["SvelteKit", { "package.json": packageJson(["@sveltejs/adapter-node"]) }, "sveltekit", "node build", "vite build"],
  [
    "the OpenAI Agents SDK in JavaScript",
    { "package.json": packageJson(["@openai/agents"], start) },
    "openai-agents-js",
    "script:start",
  ],
  [
    "A2A in JavaScript",
    { "package.json": packageJson(["@a2a-js/sdk", "express"], start) },
    "a2a-javascript",
    "script:start",
  ],
  [
    "an MCP server in TypeScript",
    {
      "package.json": packageJson(["@modelcontextprotocol/sdk"], built),
      "src/index.ts": "new StreamableHTTPServerTransport()",
    },
    "mcp-typescript",
    "script:start",
    "script:build",
  ],
  [
    "FastAPI",
    { "requirements.txt": "fastapi[standard]>=0.1\n", "main.py": "app = FastAPI()" },
    "fastapi",
    uvicorn("main:app"),
  ],
  [
    "FastAPI in a package",
    { "pyproject.toml": pyproject("FastAPI"), "app/main.py": "api: FastAPI = FastAPI(\n  title='x')" },
    "fastapi",
    uvicorn("app.main:api"),
  ],
  [
    "FastAPI below src",
    { "pyproject.toml": pyproject("fastapi"), "src/shop/main.py": "app = FastAPI()" },
    "fastapi",
    uvicorn("shop.main:app"),
  ],
  [
    "FastAPI in a package named src",
    { "requirements.txt": "fastapi", "src/main.py": "from src.x import y\napp = FastAPI()" },
    "fastapi",
    uvicorn("src.main:app"),
  ],
  [
    "a FastAPI factory",
    { "requirements.txt": "fastapi", "shop/web.py": "def create_app() -> FastAPI:\n  return FastAPI()" },
    "fastapi",
    `${uvicorn("shop.web:create_app")} --factory`,
  ],
  [
    "FastAPI beside tests and routes",
    {
      "requirements.txt": "fastapi",
      "tests/main.py": "app = FastAPI()",
      "a/routes.py": "sub = FastAPI()",
      "a/server.py": "app = FastAPI()",
    },
    "fastapi",
    uvicorn("a.server:app"),
  ],
  [
    "Starlette",
    { "requirements.txt": "starlette", "app.py": "app = Starlette(routes=[])" },
    "starlette",
    uvicorn("app:app"),
  ],
  [
    "Flask",
    { "requirements.txt": "Flask==3", "app.py": "app = Flask(__name__)" },
    "flask",
    "python -m gunicorn app:app --bind $HOST:$PORT",
  ],
  [
    "a Flask factory",
    { "requirements.txt": "flask", "shop/__init__.py": "def create_app():\n    app = Flask(__name__)\n    return app" },
    "flask",
    "python -m gunicorn 'shop:create_app()' --bind $HOST:$PORT",
  ],
  [
    "Django",
    { "requirements.txt": "django", "manage.py": "", "shop/wsgi.py": "" },
    "django",
    "python -m gunicorn shop.wsgi:application --bind $HOST:$PORT",
  ],
  ["MCP over stdio", { "requirements.txt": "mcp", "a.py": stdioServer }, "mcp-stdio", `${proxy} -- python a.py`],
  [
    "FastMCP",
    { "requirements.txt": "fastmcp>=2", "server.py": 'mcp = FastMCP("x")' },
    "fastmcp",
    "python -m uvicorn server:mcp.http_app --factory --host $HOST --port $PORT",
  ],
  [
    "A2A with options",
    {
      "pyproject.toml": pyproject("a2a-sdk[http-server]"),
      "agent/__main__.py":
        '@click.option("--host")\n@click.option("--port")\ndef main(host, port):\n  uvicorn.run(app)\nif __name__ == "__main__":\n  main()',
    },
    "a2a-python",
    "python -m agent --host $HOST --port $PORT",
  ],
  [
    "A2A with an application",
    {
      "requirements.txt": "a2a-sdk",
      "main.py": "app = A2AStarletteApplication(\n    agent_card=card,\n    http_handler=handler,\n).build()",
    },
    "a2a-python",
    uvicorn("main:app"),
  ],
  [
    "Pydantic AI",
    { "requirements.txt": "pydantic-ai", "main.py": "app = agent.to_a2a()" },
    "pydantic-ai",
    uvicorn("main:app"),
  ],
  [
    "the OpenAI Agents SDK",
    { "requirements.txt": "openai-agents\nfastapi", "main.py": "app = FastAPI()" },
    "openai-agents",
    uvicorn("main:app"),
  ],
  ["CrewAI", { "requirements.txt": "crewai\nfastapi", "main.py": "app = FastAPI()" }, "crewai", uvicorn("main:app")],
  [
    "Google ADK",
    { "requirements.txt": "google-adk", "weather/agent.py": "root_agent = Agent()" },
    "google-adk",
    "python pierhead_adk.py --host $HOST --port $PORT .",
  ],
  [
    "Google ADK in a directory of agents",
    { "requirements.txt": "google-adk", "agents/weather/agent.py": "root_agent: Agent = Agent()" },
    "google-adk",
    "python pierhead_adk.py --host $HOST --port $PORT agents",
  ],
  [
    "Google ADK with its own application",
    { "requirements.txt": "google-adk", "main.py": "app: FastAPI = get_fast_api_app(\n  web=True)" },
    "google-adk",
    uvicorn("main:app"),
  ],
  [
    "LlamaIndex",
    { "requirements.txt": "llama-index\nfastapi", "main.py": "app = FastAPI()" },
    "llama-index",
    uvicorn("main:app"),
  ],
  [
    "LlamaIndex Workflows",
    { "requirements.txt": "llama-index-workflows[server]", "server.py": "server = WorkflowServer()" },
    "llama-index",
    "python -m uvicorn server:server.app --host $HOST --port $PORT",
  ],
  ["Agno", { "requirements.txt": "agno", "os.py": "app = agent_os.get_app()" }, "agno", uvicorn("os:app")],
  [
    "AutoGen",
    { "requirements.txt": "autogen-agentchat\nfastapi", "main.py": "app = FastAPI()" },
    "autogen",
    uvicorn("main:app"),
  ],
  [
    "LangGraph behind FastAPI",
    { "requirements.txt": "langgraph\nfastapi", "main.py": "app = FastAPI()" },
    "langgraph",
    uvicorn("main:app"),
  ],
  [
    "Streamlit",
    { "requirements.txt": "streamlit", "app.py": "import streamlit as st\nst.title('x')" },
    "streamlit",
    "streamlit run app.py --server.headless true --server.address $HOST --server.port $PORT",
  ],
  [
    "Chainlit",
    { "requirements.txt": "chainlit", "app.py": "import chainlit as cl\n@cl.on_message\n" },
    "chainlit",
    "chainlit run app.py --headless --host $HOST --port $PORT",
  ],
  [
    "Aegra with its own application",
    { "requirements.txt": "aegra-api", "main.py": "app = FastAPI()" },
    "aegra",
    uvicorn("main:app"),
  ],
  ["an ASGI application", { "requirements.txt": "", "main.py": "app = FastAPI()" }, "asgi", uvicorn("main:app")],
  [
    "a WSGI application",
    { "requirements.txt": "", "main.py": "app = Flask(__name__)" },
    "wsgi",
    "python -m gunicorn main:app --bind $HOST:$PORT",
  ],
  [
    "a program",
    { "requirements.txt": "aiohttp", "run.py": 'if __name__ == "__main__":\n    web.run_app(app)' },
    "python",
    "python run.py",
  ],
  [
    "a Gradio application",
    { "requirements.txt": "gradio\na2a-sdk", "app.py": "import gradio as gr\ngr.ChatInterface(chat).queue().launch()" },
    "gradio",
    "GRADIO_SERVER_NAME=$HOST GRADIO_SERVER_PORT=$PORT python app.py",
  ],
  [
    "an application that a function of another file makes",
    { "requirements.txt": "fastapi", "main.py": "import uvicorn\nfrom shop.app import create_app\napp = create_app()" },
    "fastapi",
    uvicorn("main:app"),
  ],
  [
    "a chat of LlamaIndex",
    { "requirements.txt": "llama-index-server", "main.py": "from x import y\napp = LlamaIndexServer(y)" },
    "asgi",
    uvicorn("main:app"),
  ],
  [
    "a script of pyproject.toml whose server another file starts",
    {
      "pyproject.toml": `${pyproject("uvicorn")}[project.scripts]\nshop = "shop.cli:main"\n[build-system]\n`,
      "src/shop/cli.py": "def main():\n  from .web import serve\n  serve()",
      "src/shop/web.py": 'add_argument("--port")\ndef serve():\n  uvicorn.run(app)',
    },
    "python",
    "shop --port $PORT",
  ],
  [
    "a program whose server another file starts",
    {
      "requirements.txt": "uvicorn",
      "main.py": 'from shop import web\nif __name__ == "__main__":\n  web.serve()',
      "shop/web.py": "def serve():\n  uvicorn.run(app)",
    },
    "python",
    "python main.py",
  ],
  [
    "a Procfile",
    { Procfile: "release: x\nweb: gunicorn shop:app --bind 0.0.0.0:$PORT\n", "requirements.txt": "flask" },
    "procfile",
    "gunicorn shop:app --bind 0.0.0.0:$PORT",
  ],
  [
    "poetry",
    {
      "pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.12"\nfastapi = "^0.115"\n',
      "main.py": "app = FastAPI()",
    },
    "fastapi",
    uvicorn("main:app"),
  ],
  [
    "Pipfile",
    { Pipfile: '[packages]\nflask = "*"\n', "app.py": "app = Flask(__name__)" },
    "flask",
    "python -m gunicorn app:app --bind $HOST:$PORT",
  ],
];

for (const [name, files, preset, command, build = null] of projects) {
  test(`recognizes ${name}`, async () => {
    const { server } = await detect(files);
    assert.notEqual(server, null);
    assert.deepEqual([server?.preset, server?.start, server?.build], [preset, command, build]);
    assert.notEqual(server?.because, "");
  });
}

test("runs a program in a directory that cannot be imported by its path", async () => {
  const program = 'app = make()\nif __name__ == "__main__":\n  uvicorn.run(app)';
  const files = { "requirements.txt": "fastapi", "my-app/main.py": program };
  assert.equal((await detect(files)).server?.start, "python my-app/main.py");
  assert.equal((await detect({ ...files, "my-app/main.py": "app = make()" })).server, null);
});

test("starts what a build makes, and the transport of an MCP server that speaks HTTP", async () => {
  const main = { main: "dist/index.js", scripts: { build: "tsc" } };
  const files = { "package.json": packageJson(["express"], main), "index.ts": "" };
  assert.equal((await detect(files)).server?.start, "node dist/index.js");
  const scripts = { build: "tsc", start: "node dist/stdio.js", "start:streamableHttp": "node dist/http.js" };
  const mcp = packageJson(["@modelcontextprotocol/sdk"], { scripts });
  assert.equal((await detect({ "package.json": mcp })).server?.start, "script:start:streamableHttp");
});

test("serves the graphs of an aegra.json with Aegra", async () => {
  const { server } = await detect({ "aegra.json": "{}", "pyproject.toml": pyproject("aegra-api") });
  assert.deepEqual([server?.start, server?.adds], ["aegra serve --host $HOST --port $PORT", ["aegra-cli"]]);
});

test("every preset has a project in this file, or in one of the others", () => {
  const node = "adonis angular astro livekit-js tanstack-start vite voltagent genkit llamaindex-ts".split(" ");
  const python = "quart litestar sanic robyn pipecat bedrock-agentcore mcp-python".split(" ");
  const tested = [...node, ...python, ...projects.map(([, , preset]) => preset)];
  const missing = presets.filter(({ id }) => !tested.includes(id));
  assert.deepEqual(missing, []);
});

test("says in words how a server was recognized", async () => {
  const files = { "pyproject.toml": pyproject("fastapi"), "api/main.py": "app = FastAPI()" };
  assert.equal((await detect(files)).server?.because, "fastapi in pyproject.toml, app in api/main.py");
});

test("starts an MCP package over HTTP when another file has its program", async () => {
  const files = {
    "pyproject.toml": pyproject("mcp"),
    "shop_mcp/__main__.py": "import sys\nfrom .server import main\nsys.exit(main())",
    "shop_mcp/server.py": `@click.option("--port")
@click.option("--transport", type=click.Choice(["stdio", "sse", "streamable-http"]))
def main(port, transport):
  uvicorn.run(app, port=port)`,
  };
  assert.equal((await detect(files)).server?.start, "python -m shop_mcp --transport streamable-http --port $PORT");
});

test("asks for a transport that the option declares", async () => {
  const startOf = async (text: string) => {
    const program = `${text}\nif __name__ == "__main__":\n  uvicorn.run(app)`;
    return (await detect({ "requirements.txt": "aiohttp", "run.py": program })).server?.start;
  };
  const far = "# \n".repeat(200);
  const declared = 'parser.add_argument("--transport", choices=["stdio", "sse"])';
  assert.equal(await startOf(`scope["type"] == "http"\n${far}${declared}`), "python run.py --transport sse");
  assert.equal(await startOf(`parser.add_argument("--transport")\n${far}scope["type"] == "http"`), "python run.py");
  const named = `parser.add_argument("--transport", choices=names)\n${far}mcp.run(transport="streamable-http")`;
  assert.equal(await startOf(named), "python run.py --transport streamable-http");
});

test("starts an A2A application that a later statement builds", async () => {
  const text = "server = A2AStarletteApplication(agent_card=card)\napp = server.build()";
  assert.equal((await detect({ "requirements.txt": "a2a-sdk", "main.py": text })).server?.start, uvicorn("main:app"));
});

test("collects the static files of a Django project", async () => {
  const files = {
    "requirements.txt": "django",
    "manage.py": "",
    "site/wsgi.py": "",
    "site/settings.py": 'INSTALLED_APPS = ["django.contrib.staticfiles"]\nSTATIC_ROOT = BASE_DIR / "static"',
  };
  const collect = "python manage.py collectstatic --noinput";
  assert.equal((await detect(files)).server?.afterBuild, collect);
  assert.equal((await detect({ ...files, Procfile: "web: gunicorn site.wsgi" })).server?.afterBuild, collect);
  assert.equal((await detect({ ...files, "site/settings.py": "" })).server?.afterBuild, null);
});

test("notices a server that listens on a port of its own", async () => {
  const hasOwnPort = async (files: Files) => (await detect(files)).server?.hasOwnPort;
  const python = (text: string) => hasOwnPort({ "requirements.txt": "a2a-sdk", "run.py": text });
  const program = 'if __name__ == "__main__":\n  uvicorn.run(app, port=9999)';
  assert.equal(await python(program), true);
  assert.equal(await python(`port = os.getenv("PORT", 9999)\n${program}`), false);
  assert.equal(await python(`parser.add_argument("--port")\n${program}`), false);
  const gradio = (text: string) => hasOwnPort({ "requirements.txt": "gradio", "app.py": `import gradio\n${text}` });
  assert.equal(await gradio("demo.launch()"), false);
  assert.equal(await gradio("demo.launch(server_port=8083)"), true);
  const procfile = (web: string) => hasOwnPort({ Procfile: `web: ${web}`, "requirements.txt": "" });
  assert.equal(await procfile("chainlit run app.py -h --port 8080"), true);
  assert.equal(await procfile("chainlit run app.py -h --port $PORT"), false);
  const node = (text: string) => hasOwnPort({ "package.json": packageJson(["express"], start), "index.js": text });
  assert.equal(await node("app.listen(3000)"), true);
  for (const read of [
    "app.listen(process.env.PORT || 3000)",
    "const { HOST, PORT } = process.env\napp.listen(PORT)",
    "const {\n  HOST,\n  PORT = 3000,\n} = process.env\napp.listen(PORT)",
    "const env = z.object({\n  PORT: z.coerce.number() }).parse(process.env)\napp.listen(env.port)",
    "Bun.serve({ fetch })",
  ])
    assert.equal(await node(read), false, read);
  assert.equal(await node("Bun.serve({ port: 3000, fetch })"), true);
  const deep = { "package.json": packageJson(["express"], start), "index.js": "app.listen(3000)" };
  assert.equal(await hasOwnPort({ ...deep, "a/b/c/d/e/f.js": "" }), false, "not all sources were read");
  assert.equal(await hasOwnPort({ ...deep, "a.js": null as unknown as string }), false, "a source is too large");
  const member = { "pyproject.toml": `${pyproject("a2a-sdk")}[tool.uv.sources]\nshared = { workspace = true }\n` };
  assert.equal(await hasOwnPort({ ...member, "run.py": program }), false, "another package may read it");
  assert.equal(await hasOwnPort({ "package.json": packageJson(["next"], start), "x.js": "a.listen(1)" }), false);
});

test("adds a server program only to a project that does not have it", async () => {
  const files = { "main.py": "app = FastAPI()" };
  assert.deepEqual((await detect({ ...files, "requirements.txt": "fastapi" })).server?.adds, ["uvicorn"]);
  assert.deepEqual(
    (await detect({ ...files, "requirements.txt": "fastapi\nuvicorn[standard]==0.30" })).server?.adds,
    [],
  );
});

test("takes the version of Python from the files that tools read", async () => {
  const files = { "requirements.txt": "fastapi", "main.py": "app = FastAPI()" };
  const versionOf = async (more: Files) => (await detect({ ...files, ...more })).server?.pythonVersion;
  assert.equal(await versionOf({ ".python-version": "3.12.4\n" }), "3.12");
  assert.equal(await versionOf({ "runtime.txt": "python-3.11.9" }), "3.11");
  assert.equal(await versionOf({ "pyproject.toml": '[project]\nrequires-python = "~=3.13.0"\n' }), "3.13");
  assert.equal(await versionOf({ "pyproject.toml": '[project]\nrequires-python = ">=3.11"\n' }), null);
});

test("says why a project has no server", async () => {
  const because = async (files: Files) => {
    const found = await detect(files);
    assert.equal(found.server, null);
    return "because" in found ? found.because : "";
  };
  const stdio = {
    "package.json": packageJson(["@modelcontextprotocol/sdk"]),
    "src/tools/stdio.ts": "new StdioServerTransport()",
  };
  assert.match(await because(stdio), /standard input, and no program starts it.*start script/);
  const python = { "requirements.txt": "mcp", "main.py": 'def start():\n  mcp.run(transport="stdio")' };
  assert.match(await because(python), /standard input only.*streamable-http/);
  assert.match(
    await because({ "requirements.txt": "crewai", "main.py": "crew.kickoff()" }),
    /no program that serves HTTP.*Add an application/,
  );
  assert.match(await because({ "package.json": "{}" }), /no start script and no server file/);
  assert.match(await because({ "README.md": "" }), /No package\.json, pyproject\.toml/);
});
