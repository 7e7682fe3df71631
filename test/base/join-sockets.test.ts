import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { Duplex } from "node:stream";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { joinSockets } from "../../src/base/join-sockets.ts";

test("a slow reader gets everything that the other side sent to its end", async () => {
  const server = createServer((socket) => void socket.end("all of it"));
  await once(server.listen(0, "127.0.0.1"), "listening");
  let seen = "";
  const reader = new Duplex({
    read() {},
    async write(chunk: Buffer, _encoding, done) {
      await sleep(200);
      if (!this.destroyed) seen += chunk.toString("utf8");
      done();
    },
  });
  const sender = connect((server.address() as AddressInfo).port, "127.0.0.1");
  joinSockets(sender, reader);
  await once(reader, "close");
  assert.equal(seen, "all of it");
  server.close();
});

test("when one side disconnects, the other side ends too", async () => {
  const [one, other] = [new Duplex({ read() {}, write() {} }), new Duplex({ read() {}, write() {} })];
  joinSockets(one, other);
  other.write("never read");
  one.destroy();
  await once(other, "close");
  assert.equal(other.writableFinished, false);
});
