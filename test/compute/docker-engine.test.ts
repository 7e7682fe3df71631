import assert from "node:assert/strict";
import { test } from "node:test";
import { EngineUnreachable } from "../../src/compute/docker/engine.ts";
import { answeringEngine } from "./answering-engine.ts";

test("an engine that goes away in the middle of an answer is named", async (context) => {
  const engine = await answeringEngine(context, (_, response) => {
    response.write('{"stream":"Step 1/2"}\n', () => response.socket?.destroy());
  });
  const named = (error: Error) =>
    error instanceof EngineUnreachable && error.message.includes(`engine at ${engine.host} broke off`);
  const progress = engine.values<{ stream: string }>("POST", "/build");
  assert.deepEqual((await progress.next()).value, { stream: "Step 1/2" });
  await assert.rejects(progress.next(), named);
  await assert.rejects(engine.call("GET", "/info"), named);
});

test("one who gives up in the middle hears his own reason", async (context) => {
  const engine = await answeringEngine(context, (_, response) => response.write('{"stream":"Step 1/2"}\n'));
  const wish = new AbortController();
  const progress = engine.values("POST", "/build", { signal: wish.signal });
  await progress.next();
  wish.abort(new Error("no longer wanted"));
  await assert.rejects(progress.next(), /no longer wanted/);
});
