import assert from "node:assert/strict";
import { test } from "node:test";
import { readCondaEnvironment } from "../../src/domain/detection/conda-environment.ts";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

async function detect(files: Record<string, string>) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const app = "app = FastAPI()\n";

test("starts pipelines of Haystack with Hayhooks", async () => {
  const wrapper = "from hayhooks import BasePipelineWrapper\nclass PipelineWrapper(BasePipelineWrapper):\n  pass\n";
  const { server } = await detect({
    "requirements.txt": "haystack-ai\n",
    "pipelines/chat/pipeline_wrapper.py": wrapper,
  });
  assert.equal(server?.start, "hayhooks run --host $HOST --port $PORT --pipelines-dir pipelines");
  assert.deepEqual(server?.adds, ["hayhooks"]);
});

test("reads the Python and the packages for pip of an environment.yml, and names those for conda", () => {
  const text =
    "name: x\ndependencies:\n  - python=3.12\n  - pip\n  - conda-forge::numpy>=1.26\n  - pip:\n      - fastapi==0.115\n";
  assert.deepEqual(readCondaEnvironment("environment.yml", text), {
    file: "environment.yml",
    pythonVersion: "3.12",
    pip: ["fastapi==0.115"],
    packages: [{ name: "numpy", line: "numpy>=1.26" }],
    ofSystem: [],
    ofOtherChannels: [],
  });
  for (const other of ["", "name: x", "dependencies: 3", "{", "- python"])
    assert.equal(readCondaEnvironment("environment.yml", other), null);
});

test("starts a server whose environment.yml has packages for pip only", async () => {
  const environment = "dependencies:\n  - python=3.12\n  - pip:\n      - fastapi\n";
  const { server } = await detect({ "environment.yml": environment, "main.py": app });
  assert.deepEqual([server?.preset, server?.pythonVersion], ["fastapi", "3.12"]);
});

test("recognizes a server by packages for conda, also beside another file that lists packages", async () => {
  const files = { "environment.yaml": "dependencies: [python=3.12, fastapi, faiss-cpu]", "main.py": app };
  assert.equal((await detect(files)).server?.preset, "fastapi");
  const beside = { ...files, "pyproject.toml": '[project]\nname = "a"\ndependencies = ["openai"]\n' };
  assert.equal((await detect(beside)).server?.preset, "fastapi");
});

test("names servers in directories of samples, and a configuration that starts one", async () => {
  const found = await detect({
    "pyproject.toml": '[project]\nname = "sdk"\ndependencies = ["fastapi"]\n',
    "sdk/__init__.py": "",
    "examples/api/server.py": app,
    "examples/tests/other.py": app,
    "samples/mcp.py": "mcp = FastMCP()",
  });
  assert.ok(found.server === null && found.saysWhatToDo);
  assert.match(found.because, /its samples do: .*examples\/api\/server\.py \(FastAPI\)/);
  assert.match(found.because, /\{"python": true, "start": \["python","-m","uvicorn","examples\.api\.server:app",/);
  assert.doesNotMatch(found.because, /tests/);
});

test("starts the pipelines of a project rather than its programs beside them, and a worker of LiveKit", async () => {
  const program = 'if __name__ == "__main__":\n  mcp.run(transport="sse")\n';
  const wrapper = "import hayhooks\nclass PipelineWrapper(hayhooks.BasePipelineWrapper):\n  pass\n";
  const files = { "requirements.txt": "hayhooks", "tools/server.py": program, "p/a/pipeline_wrapper.py": wrapper };
  assert.match((await detect(files)).server?.start ?? "", /^hayhooks run .* --pipelines-dir p$/);
  const worker = {
    "requirements.txt": "livekit-agents[silero]",
    "agent.py": 'if __name__ == "__main__":\n  cli.run_app(server)',
  };
  const { server } = await detect(worker);
  assert.deepEqual([server?.start, server?.hasOwnPort], ["python agent.py start", true]);
});

test("starts an application of Gradio whose package comes with another one", async () => {
  const { server } = await detect({
    "requirements.txt": "agentchat",
    "app.py": "import gradio as gr\ndemo.launch()\n",
  });
  assert.deepEqual([server?.preset, server?.adds], ["gradio", ["gradio"]]);
});

test("lets a Django project serve its own address when a variable names the allowed hosts", async () => {
  const variablesFor = async (settings: string) => {
    const files = { "requirements.txt": "django", "manage.py": "", "site/wsgi.py": "", "site/settings.py": settings };
    return (await detect(files)).server?.variables;
  };
  const hosts = "127.0.0.1,localhost,$PUBLIC_HOST";
  assert.deepEqual(await variablesFor('hosts = os.getenv("DJANGO_ALLOWED_HOSTS", "")'), {
    DJANGO_ALLOWED_HOSTS: hosts,
  });
  assert.deepEqual(await variablesFor('ALLOWED_HOSTS = env.list("ALLOWED_HOSTS")'), { ALLOWED_HOSTS: hosts });
  assert.deepEqual(await variablesFor('ALLOWED_HOSTS = os.environ["HOSTS_ALLOWED_HOSTS"].split(",")'), {
    HOSTS_ALLOWED_HOSTS: hosts,
  });
  for (const settings of [
    'ALLOWED_HOSTS = ["shop.example"]',
    'ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["*"])',
    'ALLOWED_HOSTS = os.getenv("ALLOWED_HOSTS", "*").split(",")',
    'ALLOWED_HOSTS = os.getenv("ALLOWED_HOSTS", "localhost").split(" ")',
    'ALLOWED_HOSTS = os.getenv("ALLOWED_HOSTS", "localhost").split()',
  ])
    assert.equal(await variablesFor(settings), undefined, settings);
});

test("starts the file that registers the callbacks of Chainlit, with or without a decorator", async () => {
  const { server } = await detect({
    "requirements.txt": "chainlit\n",
    "main.py": "import chainlit as cl\nimport parts\n\ncl.on_chat_start(parts.start)\n",
    "parts/messages.py": "import chainlit as cl\n\n@cl.on_message\nasync def answer(message):\n  pass\n",
  });
  assert.match(server?.start ?? "", /^chainlit run main\.py /);
});

test("starts the server of a package with its own requirements.txt, with options that another file declares", async () => {
  const { server } = await detect({
    "pyproject.toml":
      '[project]\nname = "x"\ndependencies = ["fastmcp"]\n[project.scripts]\nx = "x.cli:main"\n[build-system]\nrequires = []\n',
    "x/__init__.py": "",
    "x/setup.py": "def check():\n  pass\n",
    "x/__main__.py": "from x.cli import main\n\nmain()\n",
    "x/cli.py": "def main():\n  make().run(transport=chosen, host=settings.host, port=settings.port)\n",
    "x/settings.py":
      'parser.add_argument("--transport", choices=["stdio", "streamable-http"])\nparser.add_argument("--host")\nparser.add_argument("--port")\n',
  });
  assert.equal(server?.start, "python -m x --transport streamable-http --host $HOST --port $PORT");
});

test("starts a Gradio interface that another module creates", async () => {
  const { server } = await detect({
    "requirements.txt": "gradio\n",
    "main.py": "from ui.gradio_interface import create\n\ncreate().launch(server_name=host)\n",
    "ui/gradio_interface.py": "import gradio as gr\n",
  });
  assert.match(server?.start ?? "", /python main\.py$/);
});

test("prefers the page that the README runs", async () => {
  const page = "import streamlit as st\n\nst.title('x')\n";
  const files = { "requirements.txt": "streamlit\n", "clear.py": page, "demo.py": page };
  assert.match((await detect(files)).server?.start ?? "", /^streamlit run clear\.py /);
  const withReadme = await detect({ ...files, "README.md": "```shell\n$ streamlit run demo.py\n```\n" });
  assert.match(withReadme.server?.start ?? "", /^streamlit run demo\.py /);
});

test("adds the program of a server that only an environment.yml lists when another file decides alone", async () => {
  const files = { "main.py": app, "environment.yml": "dependencies: [fastapi, uvicorn]" };
  const addsOf = async (others: Record<string, string>) => (await detect({ ...files, ...others })).server?.adds;
  const project = { "pyproject.toml": '[project]\nname = "a"\ndependencies = ["fastapi"]\n' };
  assert.deepEqual(await addsOf({ "requirements.txt": "fastapi\n" }), ["uvicorn"]);
  assert.deepEqual(await addsOf({ ...project, "uv.lock": "" }), ["uvicorn"]);
  assert.deepEqual(await addsOf({ "pyproject.toml": "[tool.ruff]\n", "requirements.txt": "fastapi\n" }), ["uvicorn"]);
  assert.deepEqual(await addsOf(project), []);
  assert.deepEqual(await addsOf({}), []);
});
