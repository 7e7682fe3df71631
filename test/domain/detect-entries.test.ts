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
