import { card, fastapi, hello, mcp, ofAnyHost, python, server } from "./server-project.ts";

// Python servers without a configuration file, one per preset of src/domain/detection/presets.ts and per way to package them.

export const pythonServers = [
  python("fastapi", { "requirements.txt": "fastapi==0.121.3\n", "main.py": fastapi }, /Recognized FastAPI/),
  python(
    "a release command, and modules of the directory above",
    {
      "shared/place.py": "import os\n\nPLACE = os.path.join(os.environ['HOME'], 'released')\n",
      "service/requirements.txt": "fastapi==0.121.3\nuvicorn==0.38.0\n",
      "service/Procfile": "release: python release.py\nweb: uvicorn main:app --host $HOST --port $PORT\n",
      "service/release.py": 'from shared.place import PLACE\n\nopen(PLACE, "w").write("hello")\n',
      "service/main.py": fastapi
        .replace('"hello"\n', "open(PLACE).read()\n")
        .replace("\nfrom", "\nfrom shared.place import PLACE\nfrom"),
    },
    /Start: python release\.py && uvicorn main:app/,
    { configPath: "service/Procfile" },
  ),
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
    "workflows of LlamaIndex that pyproject.toml names",
    {
      "pyproject.toml": `[project]\nname = "greeter"\nversion = "0.1.0"\nrequires-python = ">=3.11"\ndependencies = ["llama-index-workflows>=2.16,<3"]\n\n[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n[tool.llamaagents.workflows]\ndefault = "greeter.flow:workflow"\n`,
      "src/greeter/__init__.py": "",
      "src/greeter/flow.py": `from workflows import Workflow, step\nfrom workflows.events import StartEvent, StopEvent\n\n\nclass Greeting(Workflow):\n    @step\n    async def greet(self, event: StartEvent) -> StopEvent:\n        return StopEvent(result=f"hello {event.get('name')}")\n\n\nworkflow = Greeting()\n`,
    },
    /Recognized LlamaIndex Workflows/,
    {
      ask: [
        { path: "/workflows", answers: /"default"/ },
        { path: "/workflows/default/run", body: { start_event: { name: "Ada" } }, answers: /hello Ada/ },
      ],
    },
  ),
  python(
    "a package that only requirements.txt lists",
    {
      "pyproject.toml": '[project]\nname = "server"\nversion = "0.1.0"\ndependencies = ["fastapi==0.121.3"]\n',
      "requirements.txt": "fastapi\nhumanize==4.14.0\n",
      "main.py": `import humanize  # noqa: F401\n${fastapi}`,
    },
    /requirements\.txt also lists humanize, which pyproject\.toml does not\./,
  ),
  python(
    "pixi.toml with packages of PyPI",
    {
      "pixi.toml": `[workspace]\nname = "server"\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n\n[dependencies]\npython = ">=3.11"\n\n[pypi-dependencies]\nfastapi = { version = "==0.121.3" }\n`,
      "main.py": fastapi,
    },
    /Installing the packages for pip in pixi\.toml\./,
    { configPath: "pixi.toml" },
  ),
  python(
    "environment.yml with packages of conda beside a pyproject.toml",
    {
      "pyproject.toml": '[project]\nname = "server"\nversion = "0.1.0"\ndependencies = ["uvicorn"]\n',
      "environment.yml":
        "channels: [conda-forge]\ndependencies:\n  - python=3.12\n  - openssl\n  - conda-forge::humanize=4.14\n  - pip:\n      - fastapi==0.121.3\n",
      "main.py": `import humanize  # noqa: F401\n${fastapi}`,
    },
    /Looking on PyPI for the packages in environment\.yml: humanize==4\.14\.\*\.[\s\S]*for the system: openssl\./,
  ),
  python(
    "tables of pixi in a pyproject.toml, with a version that only conda has",
    {
      "pyproject.toml": `[project]\nname = "server"\nversion = "0.1.0"\n\n[tool.pixi.workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n\n[tool.pixi.dependencies]\npython = "3.12.*"\nfastapi = "==0.121.999"\nuvicorn = "*"\n\n[tool.pixi.feature.web.pypi-dependencies.humanize]\nversion = "==4.14.0"\n\n[tool.pixi.environments]\ndefault = ["web"]\n`,
      "main.py": `import humanize  # noqa: F401\n${fastapi}`,
    },
    /PyPI does not have all versions in pyproject\.toml for this Python\./,
  ),
  python(
    "environment.yml with a package that only conda has",
    { "environment.yml": "dependencies:\n  - fastapi\n  - package-that-only-conda-has\n", "main.py": fastapi },
    /./,
    { configPath: "environment.yml", ask: { buildFails: /PyPI does not have: package-that-only-conda-has\. / } },
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
    "uv.lock of a project that has another name by now",
    {
      "pyproject.toml":
        '[project]\nname = "web"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["fastapi==0.121.3"]\n',
      "uv.lock":
        'version = 1\nrequires-python = ">=3.11"\n\n[[package]]\nname = "shop"\nversion = "1"\nsource = { virtual = "." }\n',
      "main.py": fastapi,
    },
    /The uv\.lock does not fit the project any more\./,
    { needs: ["uv"] },
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
    "mcp python sdk before the transport at /mcp",
    {
      "requirements.txt": "mcp==1.3.0\npydantic==2.10.6\n",
      "server.py": 'from mcp.server.fastmcp import FastMCP\n\nmcp = FastMCP("greeter")\n',
    },
    /Recognized MCP Python SDK/,
    { ask: ["events"] },
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
