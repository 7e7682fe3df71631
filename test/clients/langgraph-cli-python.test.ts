import assert from "node:assert/strict";
import { test } from "node:test";
import { openDesk } from "./desk.ts";
import { langgraphCliPython } from "./install.ts";
import { testLanggraphCli } from "./story.ts";

const name = "langgraph-cli 0.4.40";

testLanggraphCli(name, langgraphCliPython);

test(`${name}: a project in Python is deployed and answers`, async () => {
  await using desk = await openDesk(langgraphCliPython, "templates/langgraph-python-hello");
  const { code, stdout, stderr } = await desk.run(["deploy", "--remote", "--no-input", "--name", "python"]);
  assert.equal(code, 0, stdout + stderr);
  const url = /URL: (\S+)/.exec(stdout)?.[1] ?? "";
  const run = { assistant_id: "agent", input: { messages: [{ role: "user", content: "Hello" }] } };
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}/runs/wait`, { method: "POST", headers, body: JSON.stringify(run) });
  assert.match(await answer.text(), /I am a LangGraph agent in Python/);
  assert.deepEqual(await desk.places(), [new URL(desk.pierhead.url).host]);
});
