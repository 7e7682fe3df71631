import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { EngineUnreachable } from "../../../src/compute/docker/engine/engine.ts";
import { startFakeEngine } from "./fake-engine.ts";

test("an engine that disconnects during an answer is named in the error", async (context) => {
  const engine = await startFakeEngine(context, (_, response) => {
    response.write('{"stream":"Step 1/2"}\n', () => response.socket?.destroy());
  });
  const named = (error: Error) =>
    error instanceof EngineUnreachable && error.message.includes(`engine at ${engine.host} closed the connection`);
  const progress = engine.values<{ stream: string }>("POST", "/build");
  assert.deepEqual((await progress.next()).value, { stream: "Step 1/2" });
  await assert.rejects(progress.next(), named);
  await assert.rejects(engine.call("GET", "/info"), named);
});

test("a caller that aborts during an answer gets its own reason", async (context) => {
  const engine = await startFakeEngine(context, (_, response) => response.write('{"stream":"Step 1/2"}\n'));
  const caller = new AbortController();
  const progress = engine.values("POST", "/build", { signal: caller.signal });
  await progress.next();
  caller.abort(new Error("no longer wanted"));
  await assert.rejects(progress.next(), /no longer wanted/);
});

test("after an upgrade or downgrade of the engine, calls use a version that it supports", async (context) => {
  let knows = { min: 24, max: 43 };
  const asked: string[] = [];
  const engine = await startFakeEngine(
    context,
    ({ url = "" }, response) => {
      const [, minor] = /^\/v1\.(\d+)\//.exec(url) ?? [];
      asked.push(url);
      const why = Number(minor) < knows.min ? "too old" : Number(minor) > knows.max ? "too new" : null;
      if (why === null) return response.end('{"ok":true}');
      return response.writeHead(400).end(`{"message":"client version 1.${minor} is ${why}."}`);
    },
    () => `1.${knows.max}`,
  );
  await engine.call("GET", "/info");
  knows = { min: 44, max: 52 };
  assert.deepEqual(await engine.call("GET", "/info"), { ok: true });
  const streamed = [];
  knows = { min: 24, max: 43 };
  for await (const value of engine.values("GET", "/events")) streamed.push(value);
  assert.deepEqual(streamed, [{ ok: true }]);
  assert.deepEqual(asked, ["/v1.43/info", "/v1.43/info", "/v1.51/info", "/v1.51/events", "/v1.43/events"]);
  knows = { min: 60, max: 61 };
  await assert.rejects(engine.call("GET", "/info"), /is too old/);
});

test("a request body that cannot be read is not reported as the engine's fault", async (context) => {
  const engine = await startFakeEngine(context, (request) => request.resume());
  const body = new Readable({ read: () => body.destroy(Object.assign(new Error("no such file"), { code: "ENOENT" })) });
  await assert.rejects(engine.call("POST", "/build", { body }), { message: "no such file", code: "ENOENT" });
});
