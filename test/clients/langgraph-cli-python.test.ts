import assert from "node:assert/strict";
import { test } from "node:test";
import { setUpClientMachine } from "./client-machine.ts";
import { langgraphCliPython } from "./install.ts";
import { testLanggraphCli } from "./story.ts";

const name = "langgraph-cli 0.4.40";

testLanggraphCli(name, langgraphCliPython);

test(`${name}: deploys a Python project that answers`, async () => {
  await using machine = await setUpClientMachine(langgraphCliPython, "templates/langgraph-python-hello");
  const { code, stdout, stderr } = await machine.run(["deploy", "--remote", "--no-input", "--name", "python"]);
  assert.equal(code, 0, stdout + stderr);
  const url = /URL: (\S+)/.exec(stdout)?.[1] ?? "";
  const run = { assistant_id: "agent", input: { messages: [{ role: "user", content: "Hello" }] } };
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}/runs/wait`, { method: "POST", headers, body: JSON.stringify(run) });
  assert.match(await answer.text(), /I am a LangGraph agent in Python/);
  assert.deepEqual(await machine.connections(), [new URL(machine.pierhead.url).host]);
});
