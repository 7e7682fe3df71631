import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

async function detect(files: Record<string, string>) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const serverOf = async (files: Record<string, string>) => (await detect(files)).server;

const startOf = async (files: Record<string, string>) => (await serverOf(files))?.start;

test("starts the page of a project, not an MCP server that the page uses", async () => {
  const page = "import streamlit as st\nst.title('Agent')";
  const tool = 'mcp = FastMCP("Weather")\nif __name__ == "__main__":\n  mcp.run(transport="sse")';
  const files = { "requirements.txt": "streamlit\nlanggraph\nmcp", "app.py": page, "weather.py": tool };
  assert.match((await startOf(files)) ?? "", /^streamlit run app.py/);
  const { "app.py": _, ...others } = files;
  assert.match((await startOf({ ...others, "server.py": tool, "ui/page.py": page })) ?? "", /server/);
});

test("starts an application from a package of the project", async () => {
  const files = { "requirements.txt": "fastapi\nlitellm", "app.py": "from litellm import proxy\napp = proxy.app\n" };
  assert.equal(await startOf(files), "python -m uvicorn app:app --host $HOST --port $PORT");
});

test("offers an MCP server over HTTP if a function creates it and it uses standard input by default", async () => {
  const files = {
    "pyproject.toml":
      '[project]\ndependencies = ["fastmcp"]\n[project.scripts]\n"shop.mcp-server" = "shop.server:main"\n[build-system]\n',
    "shop/server.py": "def main():\n  server = FastMCP('Shop')\n  server.run()\n",
  };
  assert.match((await startOf(files)) ?? "", /^mcp-proxy .* -- shop.mcp-server$/);
});

test("migrates the database of a Django project before its start, unless a Procfile has its commands", async () => {
  const settings = 'DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3"}}\n';
  const files = { "requirements.txt": "django", "manage.py": "", "shop/wsgi.py": "", "shop/settings.py": settings };
  const before = async (more: Record<string, string> = {}) => (await serverOf({ ...files, ...more }))?.beforeStart;
  assert.deepEqual(await before(), ["python manage.py migrate --noinput"]);
  assert.equal(await before({ "shop/settings.py": "DEBUG = True\n" }), undefined);
  assert.equal(await before({ "shop/settings.py": "DATABASES = {}\n" }), undefined);
  assert.equal(await before({ Procfile: "web: gunicorn shop.wsgi\n" }), undefined);
});

test("distinguishes the server of the MCP SDK from that of FastMCP, which has the same name", async () => {
  const start = (imported: string) =>
    startOf({
      "requirements.txt": "mcp\nfastmcp",
      "server.py": `from ${imported} import FastMCP\nmcp = FastMCP("Shop")`,
    });
  assert.match((await start("mcp.server.fastmcp")) ?? "", /pierhead_mcp:app/);
  assert.match((await start("fastmcp")) ?? "", /server:mcp.http_app/);
});

test("names the Django projects among the samples of a package, and a configuration that starts one", async () => {
  const found = await detect({
    "pyproject.toml": '[project]\nname = "rest-mcp"\ndependencies = ["django"]\n',
    "rest_mcp/__init__.py": "",
    "examples/shop/manage.py": "",
    "examples/shop/shop/asgi.py": "application = get_asgi_application()\n",
    "examples/jobs/manage.py": "",
    "tests/site/manage.py": "",
  });
  assert.ok(found.server === null && found.saysWhatToDo);
  assert.match(found.because, /its samples do: examples\/shop \(Django\), examples\/jobs \(Django\)\. /);
  assert.match(
    found.because,
    /"start": \["sh","-c","cd examples\/shop && python manage\.py migrate --noinput && exec python manage\.py runserver \$HOST:\$PORT --noreload"\]\}\.$/,
  );
});

test("says which package a sample needs that the project does not list", async () => {
  const samples = { "examples/api/main.py": "from words import word\napp = FastAPI()\n", "examples/api/words.py": "" };
  const found = await detect({ "pyproject.toml": '[project]\nname = "sdk"\ndependencies = ["fastapi"]\n', ...samples });
  assert.ok(found.server === null);
  assert.match(found.because, /"start": \["sh","-c","cd examples\/api && python -m uvicorn main:app .*"\]\}/);
  assert.match(found.because, / Add uvicorn to the project's dependencies, too\.$/);
});

test("starts a Django project that has only an ASGI application", async () => {
  const files = { "requirements.txt": "django\n", "manage.py": "", "shop/asgi.py": "application = make()\n" };
  assert.equal(await startOf(files), "python -m uvicorn shop.asgi:application --host $HOST --port $PORT");
});

test("leaves a package to its own pyproject.toml when the one above has only settings of tools", async () => {
  const files = {
    "pyproject.toml": '[tool.ruff]\nsrc = ["src"]\n',
    "src/__init__.py": "",
    "src/pyproject.toml": '[project]\ndependencies = ["quart"]\n',
    "src/chat/__init__.py": "def create_app():\n    return Quart(__name__)\n",
  };
  assert.equal(await serverOf(files), null);
  const listed = { ...files, "pyproject.toml": '[project]\ndependencies = ["quart"]\n' };
  assert.equal((await serverOf(listed))?.preset, "quart");
});

test("imports a server from the __main__.py of a package, not from the package", async () => {
  const pyproject =
    '[project]\nname = "words-mcp"\ndependencies = ["mcp"]\n[project.scripts]\nwords-mcp = "words.__main__:main"\n[build-system]\n';
  const main = 'from mcp.server.fastmcp import FastMCP\nmcp = FastMCP("words")\ndef main():\n    mcp.run()\n';
  const files = { "pyproject.toml": pyproject, "src/words/__init__.py": "", "src/words/__main__.py": main };
  const server = await serverOf(files);
  assert.match(server?.file?.text ?? "", /^from words\.__main__ import mcp as server$/m);
});

test("starts the application of a project, not a mock of it that is nearer to a usual form", async () => {
  const factory = "def get_app():\n    app = FastAPI()\n    return app\n";
  const files = {
    "requirements.txt": "fastapi\n",
    "shop/web/app.py": factory,
    "shop/api/stream_mock.py": "app = FastAPI()\n",
  };
  assert.match((await startOf(files)) ?? "", /shop\.web\.app:get_app/);
});

test("asks for a list of packages where a sample has only Python files", async () => {
  const found = await detect({ "app.py": "app = FastAPI()\n", "README.md": "pip install fastapi" });
  assert.ok(found.server === null);
  assert.match(found.because, /No requirements\.txt or pyproject\.toml lists .* Add a requirements\.txt with them\.$/);
});

test("starts a program with a server of the Agent Communication Protocol", async () => {
  const agent = 'from acp_sdk.server import Server\nserver = Server()\nif __name__ == "__main__":\n    server.run()\n';
  assert.equal(await startOf({ "requirements.txt": "acp-sdk\n", "agent.py": agent }), "python agent.py");
});
