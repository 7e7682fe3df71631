import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { Engine } from "../../src/compute/docker/engine.ts";
import { removeContainer } from "../../src/compute/docker/replica.ts";

test("a container whose removal by somebody else came to nothing is removed all the same", {
  timeout: 20_000,
}, async (context) => {
  const asked = await startEngine(context, { removedBy: 3 });
  await removeContainer(asked.engine, "agent");
  assert.equal(asked.removals, 3);
});

test("a container that does not go is waited for no longer than was said, and named", {
  timeout: 20_000,
}, async (context) => {
  const { engine } = await startEngine(context, { removedBy: Number.POSITIVE_INFINITY });
  await assert.rejects(removeContainer(engine, "agent", 300), /the engine has not removed the container agent/);
});

/** An engine with one container, whose removal is always under way already, until it is asked for the `removedBy`th time. */
async function startEngine(context: TestContext, { removedBy }: { removedBy: number }) {
  const asked = { removals: 0 };
  const server = createServer((request, response) => {
    response.setHeader("api-version", "1.45");
    if (request.method === "DELETE") asked.removals += 1;
    const isThere = asked.removals < removedBy;
    if (request.url === "/_ping") response.end("OK");
    else if (!isThere) response.writeHead(404).end("{}");
    else if (request.method === "DELETE") response.writeHead(409).end('{"message":"removal is already in progress"}');
    else response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const engine = await new Engine(`tcp://127.0.0.1:${(server.address() as AddressInfo).port}`).open();
  context.after(() => {
    engine.close();
    server.close();
    server.closeAllConnections();
  });
  return Object.assign(asked, { engine });
}
