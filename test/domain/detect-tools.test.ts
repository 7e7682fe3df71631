import assert from "node:assert/strict";
import { test } from "node:test";
import { readCondaEnvironment } from "../../src/domain/detection/conda-environment.ts";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

async function detect(files: Files) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const pixi = `[workspace]
name = "server"
channels = ["conda-forge"]

[dependencies]
python = "3.12.*"

[pypi-dependencies]
fastapi = "*"
uvicorn = { version = ">=0.34, <1", extras = ["standard"] }
words = { path = "./words", editable = true }
tone = "1.2.0"

[feature.test.dependencies]
pytest = "*"
`;

test("reads the packages and the Python of a pixi.toml", () => {
  assert.deepEqual(readCondaEnvironment("pixi.toml", pixi), {
    file: "pixi.toml",
    pythonVersion: "3.12",
    pip: ["fastapi", "uvicorn[standard]>=0.34,<1", "-e ./words", "tone==1.2.0"],
    packages: [],
    ofSystem: [],
    ofOtherChannels: [],
  });
});

test("installs the commit of a package that a pixi.toml names", () => {
  const text = '[pypi-dependencies]\nours = { git = "https://git.example/ours", rev = "1a2b3c" }\n';
  assert.deepEqual(readCondaEnvironment("pixi.toml", text)?.pip, ["ours @ git+https://git.example/ours@1a2b3c"]);
});

test("reads a pixi.toml that is made to be slow", () => {
  const names = Array.from({ length: 15_000 }, (_, at) => `a${at.toString(36)}`);
  const text = `[pypi-dependencies]\n${names.map((name) => `${name} = "*"\n`).join("")}`;
  const started = performance.now();
  const found = readCondaEnvironment("pixi.toml", text);
  assert.ok(performance.now() - started < 3_000);
  assert.deepEqual(found?.pip, names);
});

test("recognizes a server whose packages a pixi.toml, or a pyproject.toml, lists for pip or for conda", async () => {
  const app = { "main.py": "from fastapi import FastAPI\napp = FastAPI()\n" };
  const { server } = await detect({ "pixi.toml": pixi, ...app });
  assert.equal(server?.start, "python -m uvicorn main:app --host $HOST --port $PORT");
  assert.equal(server?.pythonVersion, "3.12");
  const ofConda = '[dependencies]\npython = ">=3.11"\nfastapi = "*"\n';
  for (const files of [{ "pixi.toml": ofConda }, { "pyproject.toml": ofConda.replace("[", "[tool.pixi.") }])
    assert.equal((await detect({ ...files, ...app })).server?.preset, "fastapi");
});

test("serves the workflows of LlamaIndex that a pyproject.toml names", async () => {
  const pyproject = `[project]\nname = "x"\ndependencies = ["llama-index-workflows"]\n[tool.llamadeploy.workflows]\ndefault = "x.flow:workflow"\n`;
  const { server } = await detect({ "pyproject.toml": pyproject, "src/x/flow.py": "workflow = Greeting()\n" });
  assert.equal(server?.start, "python -m uvicorn pierhead_workflows:app --host $HOST --port $PORT");
  assert.deepEqual(server?.adds, ["llama-agents-server"]);
  const renamed = pyproject.replace("llamadeploy", "llamaagents");
  const { server: ofNew } = await detect({ "pyproject.toml": renamed, "src/x/flow.py": "workflow = Greeting()\n" });
  assert.equal(ofNew?.because, "[tool.llamaagents.workflows] in pyproject.toml");
  const own = await detect({ "pyproject.toml": pyproject, "main.py": "server = WorkflowServer()\n" });
  assert.equal(own.server?.start, "python -m uvicorn main:server.app --host $HOST --port $PORT");
  const api = { "pyproject.toml": pyproject.replace('["llama', '["fastapi", "llama'), "main.py": "app = FastAPI()\n" };
  assert.equal((await detect(api)).server?.start, "python -m uvicorn main:app --host $HOST --port $PORT");
});

test("says how workflows of LlamaIndex in a file for llamactl are served", async () => {
  const files = { "pyproject.toml": '[project]\nname = "x"\n', "src/flow.py": "workflow = Greeting()\n" };
  for (const file of ["llama_deploy.yml", "llama_agents.toml"]) {
    const found = await detect({ ...files, [file]: "" });
    assert.ok(found.server === null && found.saysWhatToDo);
    assert.match(found.because, new RegExp(`^${file} describes workflows .*pyproject\\.toml.*llamaagents\\.workflows`));
  }
  const served = await detect({ ...files, "llama_deploy.yml": "", "main.py": "server = WorkflowServer()\n" });
  assert.equal(served.server?.preset, "llama-index");
});

test("starts the file that adds routes to a Flask application of another package", async () => {
  const { server } = await detect({
    "requirements.txt": "flask\n",
    "main.py": "import boxes\napp = boxes.create_app('/pages')\n@app.route('/')\ndef home():\n  return 'hello'\n",
    "boxes/__init__.py": "from flask import Flask\ndef create_app(path):\n  return Flask(__name__)\n",
  });
  assert.equal(server?.start, "python -m gunicorn main:app --bind $HOST:$PORT");
});

test("starts the server of a Genkit project without the pages for its developers", async () => {
  const manifest = (scripts: object) => JSON.stringify({ scripts, dependencies: { genkit: "1" } });
  const files = { "src/index.ts": "startFlowServer({ flows: [main] })\n" };
  const { server } = await detect({
    "package.json": manifest({ start: "genkit start -o -- npx tsx --watch src/index.ts" }),
    ...files,
  });
  assert.match(server?.start ?? "", /^node --import \S+tsx\S+ src\/index\.ts$/);
  assert.equal(server?.hasOwnPort, false, "Genkit reads PORT");
  const fixed = await detect({
    "package.json": manifest({}),
    "src/index.ts": "startFlowServer({ flows: [main], port: 3400 })\n",
  });
  assert.equal(fixed.server?.hasOwnPort, true);
  const own = await detect({ "package.json": manifest({ start: "node lib/index.js" }), ...files });
  assert.equal(own.server?.start, "script:start");
});

test("says how agents for managed services of LangSmith run on a server of their own", async () => {
  const because = async (files: Files) => {
    const found = await detect(files);
    return found.server === null && found.saysWhatToDo ? found.because : "";
  };
  const python = { "requirements.txt": "managed-deepagents==0.10\n", "agent.py": "agent = define_deep_agent()\n" };
  assert.match(
    await because(python),
    /^This project is a Managed Deep Agent .*create_deep_agent .*langgraph\.json: \{/,
  );
  const node = { "package.json": JSON.stringify({ dependencies: { "managed-deepagents": "1" } }), "agent.ts": "" };
  assert.match(await because(node), /createDeepAgent of the package deepagents in agent\.ts/);
  assert.match(await because({ "deepagents.toml": "", "AGENTS.md": "" }), /^deepagents\.toml describes an agent/);
  assert.match(await because({ "agent.json": "{}", "AGENTS.md": "" }), /^agent\.json describes an agent/);
  assert.equal(await because({ "agent.json": "{}" }), "");
  // Other tools have files with these names, too.
  const crew = { "requirements.txt": "crewai", "main.py": "crew.kickoff()", "agent.json": "{}", "AGENTS.md": "" };
  assert.match(await because(crew), /^requirements\.txt has crewai/);
  assert.match(await because({ ...crew, "requirements.txt": "deepagents" }), /^agent\.json describes an agent/);
});
