import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgentRepository } from "../support/agent-repository.ts";
import { deployLongRuns, settingsFor } from "../support/long-runs.ts";
import { startTestServer } from "../support/server.ts";

/** How long a run beside a redeploy takes, or as PIERHEAD_TEST_LONG_RUN_S says, for example 600. */
const longRunMs = 1_000 * Number(process.env["PIERHEAD_TEST_LONG_RUN_S"] ?? 15);

/** A run that is cut at the drain timeout of 3 s, well after a busy machine has begun to switch. */
const cutRunMs = 20_000;

/** 5 s are promised for an idle machine. The suite runs beside others, so it only reports how long requests waited. */
const waitMaxMs = process.env["PIERHEAD_TEST_LONG_RUN_S"] === undefined ? Number.POSITIVE_INFINITY : 5_000;

/** Longer than a cold installation of the server on a loaded machine. Not a measurement. */
const timeoutMs = 550_000 + longRunMs;

/** Three steps, of which the second takes as long as the input says. */
const longGraph = `
import asyncio
from langgraph.graph import END, START, MessagesState, StateGraph

def say(content):
    return {"messages": [{"role": "assistant", "content": content}]}

async def second(state: MessagesState):
    await asyncio.sleep(int(state["messages"][0].content) / 1000)
    return say("second")

graph = (
    StateGraph(MessagesState)
    .add_node("first", lambda _: say("first"))
    .add_node("second", second)
    .add_node("third", lambda _: say("third"))
    .add_edge(START, "first").add_edge("first", "second").add_edge("second", "third").add_edge("third", END)
    .compile()
)
`;

test("replaces a Python server beside long runs while requests flow", async (context) => {
  await using pierhead = await startTestServer(settingsFor(longRunMs));
  await using repository = await createAgentRepository({
    "langgraph.json": JSON.stringify({ dependencies: ["."], graphs: { long: "./long.py:graph" } }),
    "requirements.txt": "langgraph\n",
    "long.py": longGraph,
  });
  const { first, beside } = await deployLongRuns(pierhead, { name: "long-python", repoUrl: repository.url, timeoutMs });
  if (/The agent needs Python|without venv/.test(first.status_message ?? "")) {
    return context.skip("SKIPPED long runs in Python: Python 3.11 or newer with venv is missing");
  }
  assert.equal(first.status, "DEPLOYED", first.status_message ?? "");

  await context.test("lets a run end that is shorter than the drain timeout", async (part) => {
    const { because, longestMs } = await beside(longRunMs, part);
    assert.match(because, /requests waited [0-9.]+ s for the switch$/);
    assert.ok(longestMs < waitMaxMs, `a request waited ${longestMs} ms`);
  });

  await context.test("cuts a run at the drain timeout, and the new server continues it", async (part) => {
    await pierhead.restart({ PIERHEAD_DRAIN_TIMEOUT_MS: "3000" });
    const { because } = await beside(cutRunMs, part);
    assert.match(because, /cut at the drain timeout: \d+ requests, 1 runs, which continue from their last/);
  });
});
