import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

type Files = Record<string, string>;

async function detect(files: Files) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const manifest = (...packages: string[]) =>
  JSON.stringify({
    scripts: { start: "node dist/index.js", build: "tsc" },
    dependencies: Object.fromEntries(packages.map((name) => [name, "1"])),
  });

test("recognizes VoltAgent, and that its server opens a port of its own unless the program reads PORT", async () => {
  const package_ = manifest("@voltagent/core", "@voltagent/server-hono", "ai");
  const serverOf = async (code: string) =>
    (await detect({ "package.json": package_, "src/index.ts": `new VoltAgent({ agents, server: ${code} });\n` }))
      .server;
  const own = await serverOf("honoServer()");
  assert.deepEqual([own?.name, own?.start, own?.hasOwnPort], ["VoltAgent", "script:start", true]);
  assert.equal((await serverOf("honoServer({ port: Number(process.env.PORT) })"))?.hasOwnPort, false);
});

test("names Genkit and LlamaIndex.TS instead of the framework below them", async () => {
  const nameOf = async (...packages: string[]) =>
    (await detect({ "package.json": manifest(...packages), "src/index.ts": "app.listen(process.env.PORT)" })).server
      ?.name;
  assert.equal(await nameOf("genkit", "express"), "Genkit");
  assert.equal(await nameOf("llamaindex", "ai", "express"), "LlamaIndex.TS");
});

test("does not take the code of documentation for the server of a package", async () => {
  const pyproject = '[project]\nname = "kit"\ndependencies = ["starlette"]\n';
  const { server, because } = (await detect({
    "pyproject.toml": pyproject,
    "docs_src/tutorial.py": "app = Starlette()\n",
  })) as { server: null; because: string };
  assert.equal(server, null);
  assert.match(because, /its samples do: docs_src\/tutorial\.py \(Starlette\)/);
});

test("lets Auth.js trust the host name of the gateway, and leaves NEXTAUTH_URL to NextAuth.js 4", async () => {
  const variablesOf = async (packages: Record<string, string>) =>
    (await detect({ "package.json": JSON.stringify({ dependencies: { next: "16", ...packages } }) })).server?.variables;
  for (const version of ["5.0.0-beta.30", "^5.0.0", "beta"])
    assert.deepEqual(await variablesOf({ "next-auth": version }), { AUTH_TRUST_HOST: "true" }, version);
  assert.deepEqual(await variablesOf({ "@auth/express": "^0.12.1" }), { AUTH_TRUST_HOST: "true" });
  for (const version of ["^4.24.11", "4", "~4.5.0", "latest"])
    assert.equal(await variablesOf({ "next-auth": version, "@auth/prisma-adapter": "^2" }), undefined, version);
  assert.equal(await variablesOf({ "next-authenticated": "5" }), undefined);
});

test("starts a page of Gradio that another file makes, with the options that it passes to Gradio", async () => {
  const program = (parser: string, launch: string) =>
    `from ui import create\nparser = ArgumentParser()\n${parser}\nif __name__ == "__main__":\n  create().queue().launch(${launch})\n`;
  const startOf = async (code: string) =>
    (await detect({ "requirements.txt": "gradio", "webui.py": code, "ui.py": "import gradio as gr\n" })).server;
  const options = 'parser.add_argument("--ip")\nparser.add_argument("--server-port")';
  const found = await startOf(program(options, "server_name=args.ip, server_port=args.server_port"));
  assert.match(found?.start ?? "", /python webui\.py --ip \$HOST --server-port \$PORT$/);
  assert.match((await startOf(program("", "server_name=settings.ip")))?.start ?? "", /python webui\.py$/);
  assert.equal((await startOf(program("", "server_port=7860")))?.hasOwnPort, true);
});

test("starts the bot of a Pipecat project at the given address", async () => {
  const bot =
    'async def bot(arguments): ...\nif __name__ == "__main__":\n  from pipecat.runner.run import main\n  main()\n';
  const { server } = await detect({ "requirements.txt": "pipecat-ai[webrtc,runner]", "bot.py": bot });
  assert.deepEqual([server?.name, server?.start], ["Pipecat", "python bot.py --host $HOST --port $PORT"]);
});

test("takes neither Next.js nor a script of the root of a workspace for its server, without the files of one", async () => {
  const root = { workspaces: ["apps/*"], devDependencies: { next: "1" }, scripts: { dev: "tsx scripts/dev.mts" } };
  const files = { "package.json": JSON.stringify(root), "scripts/dev.mts": "", "apps/web/app/page.tsx": "" };
  assert.equal((await detect(files)).server, null);
  assert.equal((await detect({ ...files, "src/app/page.tsx": "" })).server?.name, "Next.js");
});

test("starts an application that one statement makes from the agents of Agno", async () => {
  const startOf = async (code: string) =>
    (await detect({ "requirements.txt": "agno[os]", "main.py": code })).server?.start;
  const start = "python -m uvicorn main:app --host $HOST --port $PORT";
  assert.equal(await startOf("app = AgentOS(\n    agents=[Agent(name='a')],\n).get_app()\n"), start);
  assert.equal(await startOf("agents = AgentOS()\napp = agents.get_app()\n"), start);
  assert.equal(await startOf("one = AgentOS()\nagents.get_app()\n"), undefined);
});

test("starts an application of Amazon Bedrock AgentCore, not one of its deployment", async () => {
  const startOf = async (code: string) =>
    (await detect({ "requirements.txt": "bedrock-agentcore\nstrands-agents", "agent.py": code })).server?.start;
  const app = "app = BedrockAgentCoreApp()\n";
  const start = "python -m uvicorn agent:app --host $HOST --port $PORT";
  assert.equal(await startOf(`from bedrock_agentcore.runtime import BedrockAgentCoreApp\n${app}`), start);
  assert.equal(await startOf(`class BedrockAgentCoreApp(App): ...\n${app}`), undefined);
});
