import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { Engine } from "../../../src/compute/docker/engine/engine.ts";

/** A container engine that gives the answers of the test, to reproduce rare behaviour of a real one. */
export async function startFakeEngine(
  context: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  version = () => "1.45",
): Promise<Engine> {
  const server = createServer((request, response) => {
    response.setHeader("api-version", version());
    if (request.url === "/_ping") response.end("OK");
    else answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const engine = await new Engine(`tcp://127.0.0.1:${(server.address() as AddressInfo).port}`).open();
  context.after(() => {
    engine.close();
    server.close();
    server.closeAllConnections();
  });
  return engine;
}
