import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { setUpClientMachine } from "./client-machine.ts";
import { langgraphCliPython } from "./install.ts";
import { testLanggraphCli } from "./story.ts";

const name = "langgraph-cli 0.4.40";

testLanggraphCli(name, langgraphCliPython);

test(`${name}: deploys a Python project that answers, by name and for an agent`, async () => {
  await using machine = await setUpClientMachine(langgraphCliPython, "templates/langgraph-python-hello");
  const agent = "src/hello_agent/agent.py";
  const source = await readFile(path.join(machine.projectDir, agent), "utf8");
  const environment = 'os.environ.get("LANGSMITH_AGENT_ID"), os.environ.get("LANGSMITH_AGENT_ENVIRONMENT")';
  await machine.write({
    [agent]: `import os\n${source.replace('return answer("Hello!', `return answer(f"{${environment.replaceAll('"', "'")}} Hello!`)}`,
  });
  const { code, stdout, stderr } = await machine.run(["deploy", "--remote", "--no-input", "--name", "python"]);
  assert.equal(code, 0, stdout + stderr);
  const url = /URL: (\S+)/.exec(stdout)?.[1] ?? "";
  assert.match(await hello(url), /\(None, None\) Hello! I am a LangGraph agent in Python/);

  const forAgent = [
    "deploy",
    "--remote",
    "--no-input",
    "--agent-id",
    "support-agent",
    "--agent-environment",
    "production",
  ];
  const made = await machine.run(forAgent);
  assert.equal(made.code, 0, made.stdout + made.stderr);
  const agentUrl = /URL: (\S+)/.exec(made.stdout)?.[1] ?? "";
  assert.match(await hello(agentUrl), /\('support-agent', 'production'\) Hello!/);
  const again = await machine.run(forAgent);
  assert.equal(again.code, 0, again.stdout + again.stderr);
  assert.match(again.stdout, /Found existing deployment/);
  assert.deepEqual(await machine.connections(), [new URL(machine.pierhead.url).host]);
});

async function hello(url: string): Promise<string> {
  const run = { assistant_id: "agent", input: { messages: [{ role: "user", content: "Hello" }] } };
  const headers = { "content-type": "application/json" };
  return (await fetch(`${url}/runs/wait`, { method: "POST", headers, body: JSON.stringify(run) })).text();
}
