import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { createAgentRepository } from "../support/agent-repository.ts";
import { deployLongRuns, settingsFor } from "../support/long-runs.ts";
import { startTestServer } from "../support/server.ts";

/** A run that is cut, well after a busy machine has started the next server. */
const cutRunMs = 25_000;
/** How long a run beside a redeploy takes: half a minute, or as PIERHEAD_TEST_LONG_RUN_S says, for example 600. */
const longRunMs = 1_000 * Number(process.env["PIERHEAD_TEST_LONG_RUN_S"] ?? 30);

/** 5 s are promised for an idle machine; the suite runs beside others. */
const waitMaxMs = process.env["PIERHEAD_TEST_LONG_RUN_S"] === undefined ? 15_000 : 5_000;

/** Longer than a cold `npm install` of the agent server on a loaded machine. Not a measurement. */
const timeoutMs = 400_000 + longRunMs;

const example = path.resolve("examples/hello-agent");

/** Three steps, of which the second takes as long as the input says. */
const longGraph = `
import { END, MessagesValue, START, StateGraph, StateSchema } from "@langchain/langgraph";
const say = (content: string) => ({ messages: [{ role: "assistant", content }] });
export const graph = new StateGraph(new StateSchema({ messages: MessagesValue }))
  .addNode("first", () => say("first"))
  .addNode("second", async ({ messages }: any) => {
    await new Promise((resolve) => setTimeout(resolve, Number(messages[0].content)));
    return say("second");
  })
  .addNode("third", () => say("third"))
  .addEdge(START, "first").addEdge("first", "second").addEdge("second", "third").addEdge("third", END)
  .compile();
`;

test("replaces a server beside long runs while requests flow", async (context) => {
  await using pierhead = await startTestServer(settingsFor(longRunMs));
  const config = { node_version: "24", graphs: { long: "./src/long.ts:graph" } };
  await using repository = await createAgentRepository({
    ...(await filesOf(example)),
    "langgraph.json": JSON.stringify(config),
    "src/long.ts": longGraph,
  });
  const { first, beside } = await deployLongRuns(pierhead, { name: "long", repoUrl: repository.url, timeoutMs });
  assert.equal(first.status, "DEPLOYED", first.status_message ?? "");

  await context.test("lets a run end that is shorter than the drain timeout", async (part) => {
    const { because, longestMs } = await beside(longRunMs, part);
    assert.match(because, /requests waited [0-9.]+ s for the switch$/);
    assert.ok(longestMs < waitMaxMs, `a request waited ${longestMs} ms`);
  });

  await context.test("cuts a run at the drain timeout, and the new server continues it", async (part) => {
    await pierhead.restart({ PIERHEAD_DRAIN_TIMEOUT_MS: "6000" });
    const { because } = await beside(cutRunMs, part);
    assert.match(because, /cut at the drain timeout: \d+ requests, 1 runs, which continue from their last/);
  });
});

/** Returns the files of the example by relative path, for a commit. */
async function filesOf(directory: string): Promise<Record<string, string>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"));
  const read = files.map(async (entry) => {
    const file = path.join(entry.parentPath, entry.name);
    return [path.relative(directory, file), await readFile(file, "utf8")] as const;
  });
  return Object.fromEntries(await Promise.all(read));
}
