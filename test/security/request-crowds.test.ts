import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { noTrustedProxies } from "../../src/base/trusted-proxies.ts";
import { createHttpServer } from "../../src/server/http-server.ts";
import { eventually, openRaw } from "../gateway/harness.ts";

const timeout = 60_000;

/** The clients whose requests have begun, in order. */
const begun: string[] = [];

const costMs = 5;

const { server, end } = createHttpServer(
  { upgrade: () => {} },
  {
    answer({ headers }, response) {
      begun.push(String(headers["x-client"]));
      const endMs = performance.now() + costMs;
      while (performance.now() < endMs);
      response.end("answered");
    },
    isForAgent: () => false,
    isForApi: () => true,
    proxies: { ...noTrustedProxies, clientOf: ({ headers }) => String(headers["x-client"]) },
  },
);
server.listen(0, "127.0.0.1");
await once(server, "listening");
after(end);
const { port } = server.address() as AddressInfo;

let accepted = 0;
server.on("connection", () => {
  accepted += 1;
});

/** Opens connections, and waits until the server has them. */
async function connectionsOf(count: number) {
  const before = accepted;
  const opened = await Promise.all(Array.from({ length: count }, () => openRaw(port)));
  await eventually(
    () => accepted - before,
    (sum) => sum === count,
  );
  return opened;
}

for (const more of ["", "Connection: Upgrade\r\nUpgrade: some-protocol\r\n"]) {
  const kind = more === "" ? "requests" : "upgrade requests";
  test(`${kind} of a crowd of connections let the event loop go on, and let others go first`, { timeout }, async () => {
    begun.length = 0;
    const crowd = await connectionsOf(100);
    const [other] = await connectionsOf(1);
    let turns = 0;
    let isOver = false;
    const countTurn = () => {
      turns += 1;
      if (!isOver) setImmediate(countTurn);
    };
    for (const { socket } of crowd) socket.write(`GET / HTTP/1.1\r\nHost: a\r\nX-Client: crowd\r\n${more}\r\n`);
    other?.socket.write(`GET / HTTP/1.1\r\nHost: a\r\nX-Client: other\r\n${more}\r\n`);
    setImmediate(countTurn);
    await Promise.all([...crowd, other].map((one) => one?.until(/answered/)));
    isOver = true;
    for (const one of [...crowd, other]) one?.[Symbol.dispose]();
    assert.equal(begun.length, 101);
    assert.ok(begun.indexOf("other") < 20, `begun as number ${begun.indexOf("other")}`);
    assert.ok(turns > 20, `${turns} turns of the event loop`);
  });
}
