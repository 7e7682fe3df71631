import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { createGateway } from "../../src/gateway/gateway.ts";
import { createHttpServer } from "../../src/server/http-server.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { openRaw, readBody, route, startTarget } from "../gateway/harness.ts";

const timeout = 60_000;

const gateway = createGateway({
  rootDomain: "localhost",
  pathPrefix: "/d/",
  publicUrl: null,
  logger: createLogger("silent"),
});
const pierhead = createHttpServer(gateway, {
  answer: (request, response) => gateway.handle(request, response),
  isForAgent: gateway.matches,
});
pierhead.server.listen(0, "127.0.0.1");
await once(pierhead.server, "listening");
const { port } = pierhead.server.address() as AddressInfo;
after(async () => {
  await gateway.close();
  await pierhead.end();
});

test("a body whose length stands behind a thousand other headers reaches the agent as a body", {
  timeout,
}, async () => {
  await using agent = await startTarget(async (request, response) => {
    const body = (await readBody(request)).toString();
    response.end(`seen ${request.url} ${request.headers["content-length"]} ${body}.`);
  });
  agent.server.maxHeadersCount = 0;
  gateway.setRoute(route([agent.target("replica-1")]));
  const many = "a:b\r\n".repeat(1_005);
  using caller = await openRaw(port, `GET /d/demo/ok HTTP/1.1\r\nHost: a\r\n${many}Content-Length: 5\r\n\r\nhello`);
  await caller.until(/seen \/ok 5 hello\./);

  // An agent that answers before it has the body: its connection must not be used for another caller.
  agent.server.removeAllListeners("request").on("request", (request, response) => response.end(`seen ${request.url}.`));
  using early = await openRaw(port, `GET /d/demo/ok HTTP/1.1\r\nHost: a\r\n${many}Content-Length: 90000\r\n\r\n`);
  await early.until(/seen \/ok\./);
  const other = await fetch(`http://127.0.0.1:${port}/d/demo/other`, { signal: AbortSignal.timeout(timeout / 2) });
  assert.equal(await other.text(), "seen /other.");
});
