// Servers without a configuration file, one per preset of src/domain/detection/presets.ts and per way to package them.

const manifest = (dependencies: Record<string, string>, more: object = {}) => ({
  name: "server",
  private: true,
  dependencies,
  ...more,
});

interface Question {
  path: string;
  headers?: Record<string, string>;
  body?: object;
  answers: RegExp;
}

/** A `Project` of table.ts, which lists it. */
interface Server {
  name: string;
  files: Record<string, string | object>;
  prepare?: string[][];
  needs: ("npm" | "pypi" | "uv")[];
  configPath: string;
  ask: Question[] | { buildFails: RegExp };
  log?: RegExp[];
  secrets?: Record<string, string>;
}

const server = (one: Server) => ({ ...one, directory: "server" });

const hello: Question[] = [{ path: "/hello", answers: /hello/ }];

const javascript = (name: string, files: Record<string, string | object>, log: RegExp, more: Partial<Server> = {}) =>
  server({ name, files, needs: ["npm"], configPath: "package.json", ask: hello, log: [log], ...more });

const python = (name: string, files: Record<string, string>, log: RegExp, more: Partial<Server> = {}) => {
  const configPath = "pyproject.toml" in files ? "pyproject.toml" : "requirements.txt";
  return server({ name, files, needs: ["pypi"], configPath, ask: hello, log: [log], ...more });
};

/** A server of Node's own modules that greets with its arguments. */
const nodeServer = (greeting = '"hello"') => `
import { createServer } from "node:http";
createServer((_, response) => response.end(${greeting})).listen(process.env.PORT, process.env.HOST);
`;

const fastapi = `
from fastapi import FastAPI

app = FastAPI()


@app.get("/hello")
def hello():
    return "hello"
`;

const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } },
};

const mcp: Question[] = [
  {
    path: "/mcp",
    headers: { accept: "application/json, text/event-stream" },
    body: initialize,
    answers: /"serverInfo"/,
  },
];

/** The SDK refuses hosts other than localhost unless the project names them. */
const ofAnyHost: Question[] = mcp.map((one) => ({ ...one, headers: { ...one.headers, host: "agents.example.com" } }));

const card: Question[] = [{ path: "/.well-known/agent-card.json", answers: /"name": ?"greeter"/ }];

/** A workspace whose member needs another member. */
const workspace = (root: object, member: string) => ({
  "package.json": { name: "root", private: true, ...root },
  "packages/words/package.json": { name: "words", version: "1.0.0", type: "module", exports: "./index.js" },
  "packages/words/index.js": 'export const word = "hello";\n',
  "apps/web/package.json": {
    name: "web",
    version: "1.0.0",
    private: true,
    type: "module",
    scripts: { start: "node server.js" },
    dependencies: { words: member, "is-odd": "3.0.1" },
  },
  "apps/web/server.js": `import "is-odd";\nimport { word } from "words";\n${nodeServer("word")}`,
});

const workspaces = { workspaces: ["apps/*", "packages/*"] };
const inWeb: Partial<Server> = { configPath: "apps/web/package.json" };

export const serverProjects = [
  javascript(
    "express with a start script",
    {
      "package.json": manifest({ express: "5.1.0" }, { scripts: { start: "node --env-file=.env server.js" } }),
      "server.js": `require("express")().get("/hello", (_, r) => r.send("hello from " + process.env.PUBLIC_URL)).listen(process.env.PORT, process.env.HOST);\n`,
    },
    /Recognized Express: express in package\.json\./,
    { ask: [{ path: "/hello", answers: /hello from http:\/\/.+/ }] },
  ),
  javascript(
    "hono in typescript",
    {
      "package.json": manifest(
        { hono: "4.10.6", "@hono/node-server": "1.19.6" },
        { type: "module", devDependencies: { tsx: "4.20.6" } },
      ),
      "src/index.ts": `import { serve } from "@hono/node-server";\nimport { Hono } from "hono";\nconst app: Hono = new Hono().get("/hello", (c) => c.text("hello"));\nserve({ fetch: app.fetch, port: Number(process.env.PORT), hostname: process.env.HOST });\n`,
    },
    /Recognized Hono.*|Start: \.\/node_modules\/\.bin\/tsx src\/index\.ts/,
  ),
  javascript(
    "hono that exports its application",
    {
      "package.json": manifest({ hono: "4.10.6" }, { scripts: { dev: "wrangler dev src/index.tsx" } }),
      "tsconfig.json": { compilerOptions: { jsx: "react-jsx", jsxImportSource: "hono/jsx" } },
      "src/page.tsx": "export const Page = ({ word }: { word: string }) => <b>{word}</b>;\n",
      "src/index.tsx": `import { Hono } from "hono";\nimport { Page } from "./page";\nconst app = new Hono();\napp.get("/hello", (c) => c.html(<Page word="hello" />));\nexport default app;\n`,
    },
    /Start: node --import \.\/\.pierhead-node\/.*srvx/,
    { ask: [{ path: "/hello", answers: /<b>hello<\/b>/ }] },
  ),
  javascript(
    "fastify with a build",
    {
      "package.json": manifest(
        { fastify: "5.6.2" },
        { type: "module", scripts: { build: "cp main.js server.js", start: "node server.js" } },
      ),
      "main.js": `import fastify from "fastify";\nconst app = fastify();\napp.get("/hello", () => "hello");\napp.get("/health", () => "well");\nawait app.listen({ port: Number(process.env.PORT), host: process.env.HOST });\n`,
    },
    /Recognized Fastify/,
  ),
  javascript(
    "nestjs",
    {
      "package.json": manifest(
        {
          "@nestjs/common": "11.1.9",
          "@nestjs/core": "11.1.9",
          "@nestjs/platform-express": "11.1.9",
          "reflect-metadata": "0.2.2",
          rxjs: "7.8.2",
          typescript: "5.9.3",
        },
        { scripts: { build: "tsc", "start:prod": "node dist/main" } },
      ),
      "tsconfig.json": {
        compilerOptions: {
          module: "commonjs",
          target: "es2022",
          outDir: "dist",
          rootDir: "src",
          strict: true,
          experimentalDecorators: true,
          emitDecoratorMetadata: true,
          skipLibCheck: true,
          types: [],
          lib: ["es2022", "dom"],
        },
        include: ["src"],
      },
      "src/main.ts": `import "reflect-metadata";\nimport { Controller, Get, Module } from "@nestjs/common";\nimport { NestFactory } from "@nestjs/core";\ndeclare const process: any;\n@Controller()\nclass Hello {\n  @Get("hello") hello() { return "hello"; }\n}\n@Module({ controllers: [Hello] })\nclass App {}\nNestFactory.create(App).then((app) => app.listen(process.env.PORT, process.env.HOST));\n`,
    },
    /Recognized NestJS/,
  ),
  javascript(
    "vercel ai sdk",
    {
      "package.json": manifest({ ai: "5.0.98" }, { type: "module", scripts: { start: "node server.js" } }),
      "server.js": `import { simulateReadableStream } from "ai";\nimport { createServer } from "node:http";\ncreateServer(async (_, response) => {\n  for await (const part of simulateReadableStream({ chunks: ["hel", "lo"] })) response.write(part);\n  response.end();\n}).listen(process.env.PORT, process.env.HOST);\n`,
    },
    /Recognized Vercel AI SDK/,
  ),
  javascript(
    "mcp typescript sdk",
    {
      "package.json": manifest(
        { "@modelcontextprotocol/sdk": "1.22.0", express: "5.1.0" },
        { type: "module", main: "server.js" },
      ),
      "server.js": `import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";\nimport { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";\nimport express from "express";\nconst app = express();\napp.use(express.json());\napp.post("/mcp", async (request, response) => {\n  const server = new McpServer({ name: "greeter", version: "1.0.0" });\n  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });\n  await server.connect(transport);\n  await transport.handleRequest(request, response, request.body);\n});\napp.listen(process.env.PORT, process.env.HOST);\n`,
    },
    /Recognized MCP TypeScript SDK/,
    { ask: mcp },
  ),
  javascript(
    "mcp over standard input",
    {
      "package.json": manifest(
        { "@modelcontextprotocol/sdk": "1.22.0" },
        { type: "module", scripts: { start: "node index.js" } },
      ),
      "index.js": `import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";\nimport { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";\nawait new McpServer({ name: "greeter", version: "1.0.0" }).connect(new StdioServerTransport());\n`,
    },
    /Recognized MCP TypeScript SDK/,
    { ask: mcp },
  ),
  javascript(
    "mcp over standard input with version 2 of the sdk",
    {
      "package.json": manifest(
        { "@modelcontextprotocol/server": "2.4.0" },
        { type: "module", scripts: { start: "node index.js" } },
      ),
      "index.js": `import { McpServer } from "@modelcontextprotocol/server";\nimport { serveStdio } from "@modelcontextprotocol/server/stdio";\nserveStdio(() => new McpServer({ name: "greeter", version: "1.0.0" }));\n`,
    },
    /Start: node .*mcp-proxy/,
    { ask: mcp },
  ),
  javascript(
    "a port of its own, and a build that migrates a database",
    {
      "package.json": manifest(
        {},
        {
          type: "module",
          scripts: { start: "node server.js", build: "node migrate.js && node --check server.js" },
        },
      ),
      "migrate.js": `import { writeFileSync } from "node:fs";\nif (!process.env.DATABASE_URL) throw new Error("DATABASE_URL is not set");\nwriteFileSync(process.env.HOME + "/migrated", "");\n`,
      "server.js": `import { existsSync } from "node:fs";\nimport { createServer } from "node:http";\nconst text = existsSync(process.env.HOME + "/migrated") ? "hello" : "no tables";\ncreateServer((_, response) => response.end(text)).listen(4173, "localhost");\n`,
    },
    /Start: node migrate\.js && node server\.js/,
    { ask: hello, secrets: { DATABASE_URL: "postgres://127.0.0.1:1/none" } },
  ),
  javascript(
    "peers that disagree",
    {
      "package.json": manifest(
        { react: "19.2.0", "react-test-renderer": "16.14.0" },
        { type: "module", scripts: { start: "node server.js" } },
      ),
      "server.js": nodeServer(),
    },
    /Trying again with --legacy-peer-deps/,
  ),
  javascript(
    "procfile",
    {
      "package.json": manifest({}, { type: "module" }),
      "main.js": nodeServer("process.argv[2] + process.env.TONE"),
      Procfile: "release: false\nweb: TONE=! node main.js hello-$PORT\n",
    },
    /Recognized .*Procfile/,
    { configPath: "Procfile", ask: [{ path: "/", answers: /^hello-\d+!$/ }] },
  ),
  javascript(
    "a pnpm lock file that lags behind",
    {
      "package.json": manifest({ "is-odd": "3.0.1" }, { type: "module", scripts: { start: "node server.js" } }),
      "pnpm-lock.yaml": "lockfileVersion: '9.0'\nimporters:\n  .: {}\n",
      "server.js": `import "is-odd";\n${nodeServer()}`,
    },
    /pnpm-lock\.yaml does not fit package\.json/,
  ),
  javascript("npm workspace", workspace(workspaces, "1.0.0"), /Recognized Node\.js/, inWeb),
  javascript(
    "pnpm workspace",
    {
      ...workspace({ packageManager: "pnpm@10.22.0" }, "workspace:*"),
      "pnpm-workspace.yaml": "packages: ['apps/*', 'packages/*']\n",
      "pnpm-lock.yaml": `lockfileVersion: '9.0'\nsettings:\n  autoInstallPeers: true\n  excludeLinksFromLockfile: false\nimporters:\n  .: {}\n  apps/web:\n    dependencies:\n      is-odd:\n        specifier: 3.0.1\n        version: 3.0.1\n      words:\n        specifier: workspace:*\n        version: link:../../packages/words\n  packages/words: {}\npackages:\n  is-number@6.0.0:\n    resolution: {integrity: sha512-Wu1VHeILBK8KAWJUAiSZQX94GmOE45Rg6/538fKwiloUu21KncEkYGPqob2oSZ5mUT73vLGrHQjKw3KMPwfDzg==}\n    engines: {node: '>=0.10.0'}\n  is-odd@3.0.1:\n    resolution: {integrity: sha512-CQpnWPrDwmP1+SMHXZhtLtJv90yiyVfluGsX5iNCVkrhQtU3TQHsUWPG9wkdk9Lgd5yNpAg9jQEo90CBaXgWMA==}\n    engines: {node: '>=4'}\nsnapshots:\n  is-number@6.0.0: {}\n  is-odd@3.0.1:\n    dependencies:\n      is-number: 6.0.0\n`,
    },
    /npm runs pnpm/,
    inWeb,
  ),
  javascript(
    "yarn 4 workspace",
    { ...workspace({ ...workspaces, packageManager: "yarn@4.11.0" }, "workspace:*") },
    /yarn install --no-immutable/,
    inWeb,
  ),
  javascript(
    "yarn 1 workspace",
    workspace({ ...workspaces, packageManager: "yarn@1.22.22" }, "1.0.0"),
    /yarn@1\.22\.22 -- yarn install/,
    inWeb,
  ),
  javascript("bun workspace", workspace({ ...workspaces, packageManager: "bun@1.3.2" }, "workspace:*"), /bun/, inWeb),

  python("fastapi", { "requirements.txt": "fastapi==0.121.3\n", "main.py": fastapi }, /Recognized FastAPI/),
  python(
    "requirements beside a pyproject.toml without dependencies",
    {
      "pyproject.toml": '[project]\nname = "agent"\nversion = "1.0.0"\n',
      "requirements.txt": "fastapi==0.121.3\n",
      "main.py": fastapi,
    },
    /Installing requirements\.txt\./,
  ),
  python(
    "environment.yml with packages for pip",
    { "environment.yml": "dependencies:\n  - pip:\n      - fastapi==0.121.3\n", "main.py": fastapi },
    /Installing the packages for pip in environment\.yml\./,
    { configPath: "environment.yml" },
  ),
  python(
    "fastapi of poetry without a build system",
    {
      "pyproject.toml":
        '[tool.poetry.dependencies]\npython = "^3.11"\nfastapi = "^0.121.0"\nuvicorn = { version = "^0.38", extras = ["standard"] }\n',
      "shop/__init__.py": "",
      "shop/main.py": fastapi,
      "data/x.txt": "",
    },
    /It has no \[build-system\]/,
  ),
  python(
    "uv workspace",
    {
      "pyproject.toml":
        '[project]\nname = "root"\nversion = "1"\nrequires-python = ">=3.11"\n[tool.uv.workspace]\nmembers = ["apps/*", "packages/*"]\n',
      "packages/words/pyproject.toml":
        '[project]\nname = "words"\nversion = "1"\nrequires-python = ">=3.11"\n[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n',
      "packages/words/src/words/__init__.py": 'word = "hello"\n',
      "apps/web/pyproject.toml":
        '[project]\nname = "web"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["fastapi==0.121.3", "uvicorn==0.38.0", "words"]\n[tool.uv.sources]\nwords = { workspace = true }\n',
      "apps/web/main.py": `from words import word\nfrom fastapi import FastAPI\n\napp = FastAPI()\n\n\n@app.get("/hello")\ndef hello():\n    return word\n`,
    },
    /Found uv\.lock in the root of the source\./,
    { configPath: "apps/web/pyproject.toml", needs: ["uv"], prepare: [["uv", "lock"]] },
  ),
  python(
    "fastapi in a flat layout that setuptools refuses",
    {
      "pyproject.toml":
        '[project]\nname = "shop"\nversion = "1"\ndependencies = ["fastapi==0.121.3"]\n[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n',
      "shop/main.py": fastapi,
      "data/x.py": "",
    },
    /The project itself cannot be packaged/,
  ),
  python(
    "starlette with a console script",
    {
      "pyproject.toml":
        '[project]\nname = "shop"\nversion = "1"\ndependencies = ["starlette==0.50.0", "uvicorn==0.38.0"]\n[project.scripts]\nshop = "shop.cli:main"\n[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n',
      "src/shop/__init__.py": "",
      "src/shop/cli.py": `import os\n\nimport uvicorn\nfrom starlette.applications import Starlette\nfrom starlette.responses import PlainTextResponse\nfrom starlette.routing import Route\n\n\nasync def hello(request):\n    return PlainTextResponse("hello")\n\n\ndef main():\n    uvicorn.run(Starlette(routes=[Route("/hello", hello)]), host=os.environ["HOST"], port=int(os.environ["PORT"]))\n`,
      Procfile: "web: shop\n",
    },
    /Start: shop/,
    { configPath: "Procfile" },
  ),
  python(
    "django",
    {
      "requirements.txt": "django==5.2.8\n",
      "manage.py": `import os\nimport sys\n\nfrom django.core.management import execute_from_command_line\n\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\nexecute_from_command_line(sys.argv)\n`,
      "shop/__init__.py": "",
      "shop/static/hello.txt": "hello",
      "shop/settings.py": `SECRET_KEY = "test"\nROOT_URLCONF = "shop.urls"\nALLOWED_HOSTS = ["*"]\nINSTALLED_APPS = ["django.contrib.staticfiles", "shop"]\nSTATIC_URL = "/static/"\nSTATIC_ROOT = "collected"\nSTORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"}}\n`,
      "shop/urls.py": `from django.http import HttpResponse\nfrom django.templatetags.static import static\nfrom django.urls import path\n\nurlpatterns = [path("hello", lambda request: HttpResponse(static("hello.txt")))]\n`,
      "shop/wsgi.py": `import os\n\nfrom django.core.wsgi import get_wsgi_application\n\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")\napplication = get_wsgi_application()\n`,
    },
    /1 static file copied/,
    { ask: [{ path: "/hello", answers: /static\/hello\.\w{12}\.txt/ }] },
  ),
  python(
    "mcp python sdk 1 in a directory with modules of its own",
    {
      "requirements.txt": "mcp==1.30.0\n",
      "shop/server.py": "from mcp.server.fastmcp import FastMCP\nfrom words import name\n\nmcp = FastMCP(name)\n",
      "shop/words.py": 'name = "greeter"\n',
    },
    /Recognized MCP Python SDK[\s\S]*\(in shop\)/,
    { ask: ofAnyHost },
  ),
  python(
    "mcp python sdk 2",
    {
      "requirements.txt": "mcp==2.3.0\n",
      "server.py": 'from mcp.server import MCPServer\n\nmcp = MCPServer("greeter")\n',
    },
    /Recognized MCP Python SDK/,
    { ask: ofAnyHost },
  ),
  python(
    "mcp python sdk 2 over standard input",
    {
      "requirements.txt": "mcp==2.3.0\n",
      "server.py":
        'from mcp.server import MCPServer\n\n\ndef serve():\n    MCPServer("greeter").run(transport="stdio")\n\n\nif __name__ == "__main__":\n    serve()\n',
    },
    /Start: mcp-proxy/,
    { ask: mcp },
  ),
  server({
    name: "python in a pierhead.json",
    files: {
      "pierhead.json": {
        python: { requirements: "deploy/requirements.txt" },
        build: ["uvicorn", "--version"],
        start: ["uvicorn", "main:app", "--host", "$HOST", "--port", "$PORT"],
      },
      "deploy/requirements.txt": "fastapi==0.121.3\nuvicorn==0.38.0\n",
      "main.py": fastapi,
    },
    needs: ["pypi"],
    configPath: "pierhead.json",
    ask: hello,
    log: [/Running uvicorn/],
  }),
  python(
    "flask factory",
    {
      "requirements.txt": "flask==3.1.2\n",
      "shop/__init__.py": `from flask import Flask\n\n\ndef create_app():\n    app = Flask(__name__)\n    app.get("/hello")(lambda: "hello")\n    return app\n`,
    },
    /Recognized Flask/,
  ),
  python(
    "a2a python sdk",
    {
      "requirements.txt": "a2a-sdk[http-server]==0.3.16\nuvicorn==0.38.0\nclick==8.3.1\n",
      "agent/__init__.py": "",
      "agent/__main__.py": `import click
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard


class Greeter(AgentExecutor):
    async def execute(self, context, event_queue): ...

    async def cancel(self, context, event_queue): ...


@click.command()
@click.option("--host", default="localhost")
@click.option("--port", default=9999)
def main(host, port):
    card = AgentCard(
        name="greeter", description="greets", url="http://x.invalid/", version="1", skills=[],
        default_input_modes=["text"], default_output_modes=["text"], capabilities=AgentCapabilities(),
    )
    handler = DefaultRequestHandler(agent_executor=Greeter(), task_store=InMemoryTaskStore())
    uvicorn.run(A2AStarletteApplication(agent_card=card, http_handler=handler).build(), host=host, port=port)


if __name__ == "__main__":
    main()
`,
    },
    /Recognized A2A Python SDK/,
    { ask: card },
  ),
];
