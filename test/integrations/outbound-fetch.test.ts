import assert from "node:assert/strict";
import dns from "node:dns/promises";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { type AddressInfo, createServer as createRawServer } from "node:net";
import { type TestContext, test } from "node:test";
import { fetchOutward, OutboundFailure, type OutboundPolicy } from "../../src/integrations/outbound-fetch.ts";

const open: OutboundPolicy = { allowPrivateNetwork: true, plainHttp: "loopback", timeoutMs: 20_000, bytesMax: 1_000 };
const closed: OutboundPolicy = { ...open, allowPrivateNetwork: false };

/** Starts a loopback server that counts its connections. */
async function listen(context: TestContext, answer: RequestListener) {
  let connections = 0;
  const server = createServer(answer);
  server.on("connection", () => {
    connections += 1;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://127.0.0.1:${port}`, connections: () => connections };
}

const fails = (reason: OutboundFailure["reason"]) => (error: unknown) =>
  error instanceof OutboundFailure && error.reason === reason;

test("sends method, headers and body and returns the response", async (context) => {
  const { url } = await listen(context, async (request, response) => {
    const body = (await request.toArray()).join("");
    response.writeHead(201, { "x-told": `${request.method} ${request.headers["x-own"]} ${body}` }).end("done");
  });
  const answer = await fetchOutward(url, { method: "POST", headers: { "x-own": "1" }, body: "a=b" }, open);
  assert.deepEqual([answer.status, answer.headers.get("x-told"), await answer.text()], [201, "POST 1 a=b", "done"]);
});

test("calls no address of this machine or its networks in any spelling", async (context) => {
  const { port, connections } = await listen(context, (_request, response) => void response.end());
  const hosts = [
    ...["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "localhost", "LOCALHOST."],
    ...["[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"],
    ...["10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "[fd00::1]", "[fe80::1]"],
  ];
  for (const host of hosts) {
    await assert.rejects(fetchOutward(`http://${host}:${port}/`, {}, closed), fails("refused"), host);
    await assert.rejects(fetchOutward(`https://${host}:${port}/`, {}, closed), fails("refused"), host);
  }
  assert.equal(connections(), 0);
});

test("allows only http and https without a username", async () => {
  for (const url of ["file:///etc/passwd", "ftp://a/", "gopher://a/", "data:,x", "https://u:p@a.invalid/", "x"]) {
    await assert.rejects(fetchOutward(url, {}, open), fails("refused"), url);
  }
});

test("allows clear text only to this machine unless the caller allows more", async () => {
  const refused = fetchOutward("http://192.0.2.1/", {}, open);
  await assert.rejects(refused, fails("refused"));
});

test("connects to the checked address when the name resolves to another one later", async (context) => {
  const first = await listen(context, (_request, response) => void response.end("checked"));
  let lookups = 0;
  context.mock.method(dns, "lookup", async () => {
    lookups += 1;
    return [{ address: lookups === 1 ? "127.0.0.1" : "127.0.0.9", family: 4 }];
  });
  syncBuiltinESMExports();
  context.after(() => {
    context.mock.restoreAll();
    syncBuiltinESMExports();
  });
  const answer = await fetchOutward(`http://rebinding.invalid:${first.port}/`, {}, open);
  assert.deepEqual([await answer.text(), lookups], ["checked", 1]);
});

test("returns a redirect instead of following it", async (context) => {
  const { url, connections } = await listen(context, (_request, response) => {
    response.writeHead(302, { location: "/elsewhere" }).end();
  });
  const answer = await fetchOutward(url, {}, open);
  assert.deepEqual([answer.status, connections()], [302, 1]);
});

test("stops an endless response at the deadline and a growing one at the limit", async (context) => {
  const slow = await listen(context, (_request, response) => void response.write("a"));
  await assert.rejects(fetchOutward(slow.url, {}, { ...open, timeoutMs: 300 }), fails("timeout"));
  const silent = await listen(context, () => {});
  await assert.rejects(fetchOutward(silent.url, {}, { ...open, timeoutMs: 300 }), fails("timeout"));
  const large = await listen(context, (_request, response) => void response.end("a".repeat(1_001)));
  await assert.rejects(fetchOutward(large.url, {}, open), fails("too large"));
});

test("stops a server that sends interim answers without end, and takes a few of them", async (context) => {
  const interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
  const server = createRawServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (head: Buffer) => {
      if (head.includes("/few")) socket.end(`${interim.repeat(20)}HTTP/1.1 204 No Content\r\n\r\n`);
      const goOn = () => {
        while (!socket.destroyed && socket.writable && socket.write(interim.repeat(500)));
      };
      socket.on("drain", goOn);
      goOn();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  assert.equal((await fetchOutward(`${url}/few`, {}, open)).status, 204);
  // Not the deadline, which would be a timeout.
  await assert.rejects(fetchOutward(url, {}, { ...open, timeoutMs: 3_000 }), fails("unreachable"));
});

test("stops a server that answers in thousands of tiny chunks, and gives others their turn meanwhile", async (context) => {
  const server = createRawServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
      const goOn = () => {
        while (!socket.destroyed && socket.writable && socket.write("1\r\n \r\n".repeat(10_000)));
      };
      socket.on("drain", goOn);
      goOn();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await assert.rejects(fetchOutward(url, {}, { ...open, bytesMax: 2 ** 23, timeoutMs: 3_000 }), fails("too large"));
  // One who wants the beginning only gets no part of such an answer either.
  await assert.rejects(fetchOutward(url, {}, { ...open, bytesMax: 1_024, cuts: true }), fails("too large"));
});

test("reads an answer whose server closes the connection before it has read the request", async (context) => {
  const body = "x".repeat(900_000);
  const server = createRawServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.end(`HTTP/1.1 413 Too Large\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const policy = { ...open, bytesMax: 2 ** 20 };
  const answer = await fetchOutward(url, { method: "POST", body: "y".repeat(100_000) }, policy);
  assert.deepEqual([answer.status, (await answer.text()).length], [413, body.length]);
});

test("holds no connection after the answer of a server that keeps it open", async (context) => {
  const gone = Promise.withResolvers<void>();
  const server = createRawServer({ allowHalfOpen: true }, (socket) => {
    const asking = setInterval(() => socket.write(" "), 50);
    socket
      .on("error", () => {})
      .once("close", () => {
        clearInterval(asking);
        gone.resolve();
      });
    socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const answer = await fetchOutward(url, { method: "POST", body: "{}" }, { ...open, timeoutMs: 60_000 });
  assert.equal(await answer.text(), "ok");
  const late = AbortSignal.timeout(5_000);
  late.addEventListener("abort", () => gone.reject(new Error("the connection is still open")));
  await gone.promise;
});

test("refuses a response with more values or levels than its caller can parse quickly", async (context) => {
  const answers: [string, boolean][] = [
    [JSON.stringify(Array(99).fill("a,b[")), true],
    [JSON.stringify(Array(101).fill("a")), false],
    ["[".repeat(50), true],
    [`{"a":`.repeat(99), true],
    ["[".repeat(101), false],
    ["a=1&".repeat(99), true],
    ["a=1&".repeat(101), false],
  ];
  for (const [text, passes] of answers) {
    const { url } = await listen(context, (_request, response) => void response.end(text));
    const answer = fetchOutward(url, {}, { ...open, bytesMax: 10_000, valuesMax: 100 });
    if (passes) assert.equal(await (await answer).text(), text);
    else await assert.rejects(answer, fails("too large"));
  }
});

test("ends the call when the caller aborts", async (context) => {
  const { url } = await listen(context, () => {});
  await assert.rejects(fetchOutward(url, { signal: AbortSignal.timeout(100) }, open), fails("cancelled"));
});

test("names an unknown host without path and query", async () => {
  for (const url of ["http://127.0.0.1:1/p?code=secret", "https://nothing.invalid/p?code=secret"]) {
    await assert.rejects(fetchOutward(url, {}, open), (error: OutboundFailure) => {
      assert.equal(error.reason, "unreachable");
      assert.ok(!error.message.includes("secret"), error.message);
      return true;
    });
  }
});

/** Starts a server that answers everything with this text. @returns its address. */
async function say(context: TestContext, words: string): Promise<string> {
  const server = createRawServer((socket) => {
    context.after(() => socket.destroy());
    socket.on("error", () => {}).once("data", () => socket.write(words));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("reports a response that is not HTTP as a failure", async (context) => {
  const url = await say(context, "SSH-2.0-nothing\r\n");
  await assert.rejects(fetchOutward(url, {}, open), fails("unreachable"));
});

test("fails immediately when a response upgrades to another protocol", async (context) => {
  const url = await say(context, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n");
  await assert.rejects(fetchOutward(url, { method: "POST", body: "{}" }, open), fails("unreachable"));
});
