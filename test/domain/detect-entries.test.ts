import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

async function detect(files: Files) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const uvicorn = (app: string) => `python -m uvicorn ${app} --host $HOST --port $PORT`;

test("prefers the file that has the server to files that only import it", async () => {
  const startOf = async (files: Files) => (await detect({ "requirements.txt": "aiohttp", ...files })).server?.start;
  const server = 'def serve():\n  uvicorn.run(app)\nif __name__ == "__main__":\n  serve()';
  const seed = 'from shop.web import serve\nif __name__ == "__main__":\n  fill()';
  assert.equal(await startOf({ "seed.py": seed, "shop/web.py": server }), "python -m shop.web");
  const program = (what: string) =>
    `import uvicorn\nserver = create_server()\nif __name__ == "__main__":\n  uvicorn.run(${what}, port=80)`;
  assert.equal(await startOf({ "main.py": program("server.build()") }), "python main.py");
  assert.equal(await startOf({ "main.py": program("server") }), uvicorn("main:server"));
  const demo = { "app.py": "import gradio\ndemo.launch()", "requirements.txt": "gradio" };
  assert.equal(await startOf({ ...demo, "web/api.py": "app = FastAPI()" }), uvicorn("web.api:app"));
});

test("offers a server of the MCP over standard input through a proxy", async () => {
  const startOf = async (files: Files) => (await detect({ "requirements.txt": "mcp", ...files })).server?.start;
  const proxied = (command: string) => `mcp-proxy --pass-environment --host $HOST --port $PORT -- ${command}`;
  const serve = "async def serve():\n  async with stdio_server() as streams:\n    await server.run(*streams)\n";
  assert.equal(
    await startOf({ "server.py": `${serve}if __name__ == "__main__":\n  asyncio.run(serve())` }),
    proxied("python server.py"),
  );
  const called = { "shop/server.py": serve, "shop/__init__.py": "from .server import serve\ndef main():\n  serve()" };
  assert.equal(
    await startOf({ ...called, "shop/__main__.py": "from shop import main\nmain()" }),
    proxied("python -m shop"),
  );
  const script = '[project.scripts]\nshop-mcp = "shop:main"\n[build-system]\nrequires = ["hatchling"]';
  assert.equal(await startOf({ ...called, "pyproject.toml": script }), proxied("shop-mcp"));
  assert.equal(await startOf({ "server.py": serve, "main.py": "app = FastAPI()" }), uvicorn("main:app"));
});

test("offers a server with several transports over standard input, if no option chooses another", async () => {
  const both = (more = "") => ({
    "requirements.txt": "mcp",
    "server.py": `${more}\nasync def main():\n  if http:\n    uvicorn.Server(config)\n  stdio_server()\nif __name__ == "__main__":\n  main()`,
  });
  assert.match((await detect(both())).server?.start ?? "", /^mcp-proxy .* -- python server\.py$/);
  const chosen = 'parser.add_argument("--transport", choices=["stdio", "streamable-http"])';
  assert.equal((await detect(both(chosen))).server?.start, "python server.py --transport streamable-http");
  assert.equal((await detect(both('port = os.getenv("PORT")'))).server?.start, "python server.py");
  const client =
    'tools = MCPTools("npx words", transport="stdio")\nif __name__ == "__main__":\n  uvicorn.run(make(), port=80)';
  const { server } = await detect({ "requirements.txt": "agno\nmcp", "agent.py": client });
  assert.equal(server?.start, "python agent.py", "it only calls a server over standard input");
});

test("starts a program that passes its transport on to a server of FastMCP", async () => {
  const files = {
    "pyproject.toml":
      '[project]\nname = "x"\ndependencies = ["fastmcp"]\n[project.scripts]\nshop = "shop:main"\n[build-system]\nrequires = ["hatchling"]',
    "src/shop/__init__.py": `from .server import make\n@click.option("--transport", type=click.Choice(["stdio", "sse", "streamable-http"]))\n@click.option("--port")\ndef main(**options):\n  asyncio.run(make().run_async(**options))\nif __name__ == "__main__":\n  main()`,
    "src/shop/server.py": "def make():\n  return FastMCP()",
  };
  assert.equal((await detect(files)).server?.start, "shop --transport streamable-http --port $PORT");
});

test("serves an MCP server of the SDK for all host names, with a file of its own", async () => {
  const files = { "requirements.txt": "mcp", "shop/server.py": 'shop = FastMCP("x")' };
  const { server } = await detect(files);
  assert.equal(server?.start, `${uvicorn("pierhead_mcp:app")} --factory`);
  assert.equal(server?.file?.name, "pierhead_mcp.py");
  assert.match(server?.file?.text ?? "", /^from shop\.server import shop as server$/m);
});

test("starts a server in the directory from which it imports its modules", async () => {
  const startOf = async (files: Files) => (await detect({ "requirements.txt": "fastapi", ...files })).server?.start;
  const app = (imports: string) => `${imports}\napp = FastAPI()`;
  const nested = { "backend/main.py": app("from core.config import settings"), "backend/core/config.py": "" };
  assert.equal(await startOf(nested), `cd backend && ${uvicorn("main:app")}`);
  const package_ = { "api/shop/main.py": app("from shop import words"), "api/shop/words.py": "" };
  assert.equal(await startOf(package_), `cd api && ${uvicorn("shop.main:app")}`);
  const fromRoot = { "app/main.py": app("from app.words import word"), "app/words.py": "" };
  assert.equal(await startOf(fromRoot), uvicorn("app.main:app"));
  assert.equal(
    await startOf({ "src/main.py": app("from words import word"), "src/words.py": "" }),
    uvicorn("main:app"),
  );
  const named = { "requirements.txt": "fastapi\nmcp", "api/main.py": app("import mcp"), "api/mcp/tools.py": "" };
  assert.equal(await startOf(named), uvicorn("api.main:app"), "a package has the name of the directory");
  const above = { "api/main.py": app("from api.words import word\nimport words"), "api/words.py": "" };
  assert.equal(await startOf(above), uvicorn("api.main:app"), "it imports its own package from above");
  const ofPython = {
    "app/main.py": app("import logging\nfrom .words import word"),
    "app/logging.py": "",
    "app/words.py": "",
  };
  assert.equal(await startOf(ofPython), uvicorn("app.main:app"), "Python has a module of the name");
  const ofPackage = { "app/main.py": app("import jwt\nfrom .words import word"), "app/jwt.py": "", "app/words.py": "" };
  assert.equal(await startOf(ofPackage), uvicorn("app.main:app"), "it imports from its own package");
  const deep = {
    "web/app/main.py": app("import jwt\nfrom app.words import word"),
    "web/app/jwt.py": "",
    "web/app/words.py": "",
  };
  assert.equal(await startOf(deep), `cd web && ${uvicorn("app.main:app")}`, "it imports its own package");
  const beside = { "work/main.py": app("import queue\nfrom shared import word"), "work/queue.py": "", "shared.py": "" };
  assert.equal(await startOf(beside), uvicorn("work.main:app"), "Python has a module of the name");
  const program = {
    "my apps/run.py": 'import words\nif __name__ == "__main__":\n  uvicorn.run(app)',
    "my apps/words.py": "",
  };
  assert.equal(await startOf(program), "cd 'my apps' && python run.py");
});

test("takes no sample and no test for the server", async () => {
  const files = { "requirements.txt": "fastapi\na2a-sdk", "shop/web/api.py": "app = FastAPI()" };
  for (const other of ["sample_files/main.py", "examples-v2/app.py", "samples/app.py", "test_server.py", "app_test.py"])
    assert.equal(
      (await detect({ ...files, [other]: "app = FastAPI()" })).server?.start,
      uvicorn("shop.web.api:app"),
      other,
    );
});

test("recognizes the applications of Quart, Litestar and Sanic, and the program of Robyn and Tornado", async () => {
  const found = async (requirements: string, text: string) => {
    const { server } = await detect({ "requirements.txt": requirements, "main.py": text });
    return [server?.preset, server?.start];
  };
  const made = `${uvicorn("main:create_app")} --factory`;
  assert.deepEqual(await found("quart", "def create_app():\n  return Quart(__name__)"), ["quart", made]);
  assert.deepEqual(await found("litestar", "def create_app():\n  return Litestar()"), ["litestar", made]);
  assert.deepEqual(await found("sanic", 'app = Sanic("x")'), ["sanic", uvicorn("main:app")]);
  const robyn = 'app = Robyn(__file__)\nif __name__ == "__main__":\n  app.start(port=8080)';
  assert.deepEqual(await found("robyn", robyn), ["robyn", "ROBYN_HOST=$HOST ROBYN_PORT=$PORT python main.py"]);
  const tornado = 'if __name__ == "__main__":\n  app.listen(8888)\n  tornado.ioloop.IOLoop.current().start()';
  assert.deepEqual(await found("tornado", tornado), ["python", "python main.py"]);
});

test("says whether the reason for an unknown server is also the advice", async () => {
  const advises = async (files: Files) => {
    const found = await detect(files);
    return found.server === null && found.saysWhatToDo;
  };
  assert.equal(await advises({ "requirements.txt": "crewai", "main.py": "crew.kickoff()" }), true);
  assert.equal(await advises({ "requirements.txt": "", "main.py": "print()" }), false);
});

test("starts the application that a FastMCP project makes, with its settings", async () => {
  const server = 'mcp = FastMCP("x")\napp = mcp.http_app(stateless_http=True)';
  const { server: found } = await detect({ "requirements.txt": "fastmcp", "server.py": server });
  assert.deepEqual([found?.preset, found?.start], ["fastmcp", uvicorn("server:app")]);
});

test("reads sources that are made to be slow in linear time", async () => {
  const size = 250_000;
  const modules = Array.from({ length: 180 }, (_, index) => `m${index}`);
  const importing = `${`from . import ${modules.join(", ")}\n`.repeat(20)}if __name__ == "__main__":\n  pass`;
  const files = {
    "package.json": "{}",
    "index.js": "export {\n".repeat(size / 9),
    "wrangler.toml": "\n".repeat(size),
    "requirements.txt": "",
    "a.py": `from${" ".repeat(size)}`,
    ...Object.fromEntries(modules.map((name) => [`${name}.py`, importing])),
  };
  const beganAt = performance.now();
  assert.notEqual((await detect(files)).server, null);
  // Half a second. In quadratic time it takes minutes.
  assert.ok(performance.now() - beganAt < 20_000);
});

test("takes code inside strings over several lines for no server of the project", async () => {
  const startOf = async (text: string) =>
    (await detect({ "requirements.txt": "flask\ngradio", "client.py": text, "tool.py": "import os" })).server?.start;
  const shown = "from flask import Flask\napp = Flask(__name__)\n";
  for (const quote of ['"""', "'''"]) {
    const prompt = `# don't\nname = "it's"\nprompt = f${quote}Review:\n${shown}${quote}\n`;
    assert.equal(await startOf(prompt), undefined);
    assert.match((await startOf(`${prompt}${shown}`)) ?? "", /client:app/);
  }
  assert.match((await startOf(`"""Says \\"""hello\\""" to\nall."""\n${shown}`)) ?? "", /client:app/);
  assert.match((await startOf(`quote = '"""'\n${shown}text = "#"  # ends with """\n`)) ?? "", /client:app/);
  assert.match((await startOf(`${shown}broken = """`)) ?? "", /client:app/);
  // A backslash before the end of a string may itself be escaped.
  assert.equal(await startOf(`home = """C:\\\\"""\nprompt = """\n${shown}"""\n`), undefined);
});
