import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { Agent, get, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { eventually, exchangeRaw, openRaw, readBody, route, startGateway, startTarget } from "./harness.ts";

test("streams server-sent events to the client one by one as they are written, headers first", async () => {
  const held: ServerResponse[] = [];
  await using agent = await startTarget((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    held.push(response);
  });
  await using site = await startGateway({ limits: { idleSocketMs: 50 } });
  site.gateway.setRoute(route([agent.target("r1")]));
  using raw = await openRaw(site.port, "GET /d/demo/stream HTTP/1.1\r\nHost: a\r\n\r\n");

  const head = await raw.until(/\r\n\r\n$/);
  assert.match(head, /^HTTP\/1\.1 200 OK\r\n/);
  assert.match(head, /x-pierhead-revision: rev-1/);
  for (let at = 0; at < 20; at += 1) {
    // The next event is written only after this one has arrived, so a proxy that buffers would block here.
    held[0]?.write(`data: ${at}\n\n`);
    await raw.until(new RegExp(`data: ${at}\n\n`));
  }
  // Longer than the limit of idle connections: a quiet stream is not an idle connection.
  const before = Date.now();
  await eventually(
    () => Date.now() - before,
    (passed) => passed > 250,
  );
  held[0]?.write("data: late\n\n");
  await raw.until(/data: late\n\n/);
  held[0]?.end();
  await raw.until(/\r\n0\r\n\r\n$/);
});

test("passes bodies both ways unchanged, with and without a length, larger than any buffer", async () => {
  await using agent = await startTarget((request, response) => {
    response.writeHead(201, { "x-framing": request.headers["transfer-encoding"] ?? "length" });
    request.pipe(response);
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const body = randomBytes(9_000_000);

  for (const framing of ["length", "chunked"]) {
    const headers = framing === "length" ? { "content-length": body.length } : { "transfer-encoding": "chunked" };
    const answer = await send(site.port, { method: "PUT", headers }, body);
    assert.deepEqual([answer.status, answer.headers["x-framing"]], [201, framing]);
    assert.equal(digest(answer.body), digest(body));
  }
  assert.equal(site.gateway.counts()[0]?.bytesIn, 2 * body.length);
  assert.equal(site.gateway.counts()[0]?.bytesOut, 2 * body.length);
});

test("frames each method towards the agent server exactly as the client sent it", async () => {
  await using agent = await startTarget((request, response) => {
    void readBody(request).then((body) => {
      const { method, headers } = request;
      const framing = [headers["content-length"] ?? "-", headers["transfer-encoding"] ?? "-"];
      const seen = [method, ...framing, `(${body})`];
      response.setHeader("x-seen", seen.join(" "));
      response.end();
    });
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const cases: [string, string, string][] = [
    ["GET", "\r\n", "GET - - ()"],
    ["HEAD", "\r\n", "HEAD - - ()"],
    ["POST", "\r\n", "POST 0 - ()"],
    ["POST", "Content-Length: 0\r\n\r\n", "POST 0 - ()"],
    ["POST", "Content-Length: 3\r\n\r\nabc", "POST 3 - (abc)"],
    ["GET", "Content-Length: 3\r\n\r\nabc", "GET 3 - (abc)"],
    ["GET", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "GET - chunked (abc)"],
    ["DELETE", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "DELETE - chunked (abc)"],
    ["PATCH", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "PATCH - chunked ()"],
    ["OPTIONS", "\r\n", "OPTIONS - - ()"],
    ["POST", "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "POST 3 - (abc)"],
  ];
  for (const [method, rest, seen] of cases) {
    const answer = await exchangeRaw(
      site.port,
      `${method} /d/demo/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${rest}`,
    );
    assert.equal(/x-seen: (.*)\r\n/.exec(answer)?.[1], seen, `${method} ${rest}`);
  }
  assert.match(await exchangeRaw(site.port, "GET /d/demo/ HTTP/1.0\r\n\r\n"), /x-seen: GET - - \(\)/);
});

test("ends the request at the agent server when the client leaves during the request or the answer", async () => {
  const left: string[] = [];
  await using agent = await startTarget((request, response) => {
    response.on("close", () => left.push(request.url ?? ""));
    if (request.url === "/stream") response.write("first");
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const start = "HTTP/1.1\r\nHost: a\r\n";
  const cases = {
    "/quiet": `GET /d/demo/quiet ${start}\r\n`,
    "/stream": `GET /d/demo/stream ${start}\r\n`,
    "/upload": `POST /d/demo/upload ${start}Content-Length: 1000\r\n\r\nabc`,
  };
  for (const [path, text] of Object.entries(cases)) {
    using raw = await openRaw(site.port, text);
    await eventually(
      () => site.gateway.inFlight("r1"),
      (count) => count === 1,
    );
    if (path === "/stream") await raw.until(/first/);
    raw.socket.destroy();
    await eventually(
      () => site.gateway.inFlight("r1"),
      (count) => count === 0,
    );
    if (path !== "/upload")
      await eventually(
        () => left,
        (paths) => paths.includes(path),
      );
  }
  assert.equal(site.gateway.counts()[0]?.failures.aborted, 3);
});

test("answers 502 with the revision when the agent server breaks off before its answer, and breaks off within it", async () => {
  await using agent = await startTarget((request, response) => {
    if (request.url === "/reset") request.socket.destroy();
    else if (request.url === "/garbage") request.socket.end("SMTP ready\r\n\r\n");
    else {
      response.writeHead(200, { "content-length": 10 });
      response.write("12345", () => request.socket.destroy());
    }
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const detail = async (path: string) => {
    const answer = await fetch(`${site.url}/d/demo${path}`);
    assert.equal(answer.status, 502);
    assert.equal(answer.headers.get("x-pierhead-revision"), "rev-1");
    return ((await answer.json()) as { detail: string }).detail;
  };

  assert.equal(await detail("/reset"), "Revision rev-1 did not answer: it closed the connection without an answer.");
  assert.equal(await detail("/garbage"), "Revision rev-1 did not answer: its answer is not valid HTTP.");
  const cut = await exchangeRaw(site.port, "GET /d/demo/cut HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.match(cut, /content-length: 10\r\n[\s\S]*\r\n\r\n12345$/);
  await agent.stop();
  assert.equal(await detail("/gone"), "Revision rev-1 did not answer: connection refused.");
  const { failures, inFlight } = site.gateway.counts()[0] ?? assert.fail();
  assert.deepEqual([failures.unreachable, failures.cut, inFlight], [3, 1, 0]);
});

test("sends a request that no replica accepted to another one, with its body", async () => {
  await using gone = await startTarget(() => {});
  await using alive = await startTarget((request, response) => void request.pipe(response));
  await using site = await startGateway();
  await gone.stop();
  site.gateway.setRoute(route([gone.target("r1"), alive.target("r2")]));

  for (let at = 0; at < 20; at += 1) {
    const answer = await send(site.port, { method: "POST", headers: { "content-length": 4 } }, Buffer.from("body"));
    assert.deepEqual([answer.status, answer.body.toString()], [200, "body"]);
  }
  assert.equal(site.gateway.counts()[0]?.failures.unreachable, 0);
});

test("skips a replica that accepts no connection in time, and answers 504 when it is the only one", async () => {
  await using deaf = await startDeafTarget();
  await using alive = await startTarget((_, response) => response.end("ok"));
  await using site = await startGateway({ limits: { connectTimeoutMs: 2_000 } });
  site.gateway.setRoute(route([deaf.target("r1"), alive.target("r2")]));
  for (let at = 0; at < 3; at += 1) assert.equal((await send(site.port, { method: "GET" })).status, 200);

  site.gateway.setRoute(route([deaf.target("r1")]));
  const answer = await send(site.port, { method: "GET" });
  assert.equal(answer.status, 504);
  assert.deepEqual(JSON.parse(answer.body.toString()), {
    detail: "Revision rev-1 did not accept a connection within 2 s.",
  });
});

test("never sends a request twice that an agent server may have seen", async () => {
  let posts = 0;
  await using first = await startTarget((request) => {
    posts += 1;
    request.socket.destroy();
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([first.target("r1"), { ...first.target("r2") }]));

  const post = await send(site.port, { method: "POST", headers: { "content-length": 4 } }, Buffer.from("body"));
  assert.equal(post.status, 502);
  assert.equal((await send(site.port, { method: "GET" })).status, 502);
  assert.equal(posts, 2);
});

test("loses no request when an idle connection turns out dead", async () => {
  // Answers one request per connection and then drops it silently, as an agent server that died would.
  let requests = 0;
  await using agent = await startTarget((request, response) => {
    requests += 1;
    const { socket } = request as IncomingMessage & { socket: { served?: boolean } };
    if (socket.served) return void socket.destroy();
    socket.served = true;
    response.end("ok");
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  for (let at = 0; at < 10; at += 1) assert.equal((await send(site.port, { method: "GET" })).status, 200);
  assert.equal(requests > 10, true, "connections were reused");
});

test("does not repeat a request with a possible effect on a reused connection", async () => {
  const seen: (string | undefined)[] = [];
  await using agent = await startTarget((request, response) => {
    seen.push(request.method);
    if (request.method === "GET") response.end("ok");
    else request.socket.destroy();
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1"), agent.target("r2")]));
  for (let at = 0; at < 4; at += 1) assert.equal((await send(site.port, { method: "GET" })).status, 200);
  const body = Buffer.from("body");
  const sent = { headers: { "content-length": body.length } };
  assert.equal((await send(site.port, { method: "POST", ...sent }, body)).status, 502);
  assert.equal((await send(site.port, { method: "PUT", ...sent }, body)).status, 502);
  assert.equal((await send(site.port, { method: "POST" })).status, 502);
  assert.deepEqual(seen.slice(4), ["POST", "PUT", "POST"]);
  assert.equal(agent.connections(), 3);
});

test("reuses connections while the agent server lives, and opens new ones after it restarts", async () => {
  const answers = (_: IncomingMessage, response: ServerResponse) => void response.end("ok");
  await using first = await startTarget(answers);
  await using site = await startGateway();
  site.gateway.setRoute(route([first.target("r1")]));
  for (let at = 0; at < 50; at += 1) assert.equal((await send(site.port, { method: "GET" })).status, 200);
  assert.equal(first.connections(), 1);

  await first.stop();
  await using second = await startTarget(answers, { port: first.port });
  for (let at = 0; at < 50; at += 1) assert.equal((await send(site.port, { method: "GET" })).status, 200);
  assert.equal(second.connections() <= 2, true, `${second.connections()} connections`);
});

test("answers 413 for a body over the limit: at once by its length, else when it has grown too large", async () => {
  let received = 0;
  await using agent = await startTarget((request, response) => {
    request.on("data", (chunk: Buffer) => {
      received += chunk.length;
    });
    request.on("end", () => response.end(`${received}`));
  });
  await using site = await startGateway({ limits: { bodyBytesMax: 100_000 } });
  site.gateway.setRoute(route([agent.target("r1")]));
  const post = (size: number, headers: Record<string, string | number>) =>
    send(site.port, { method: "POST", headers }, Buffer.alloc(size));

  const declared = await post(1_000_000, { "content-length": 1_000_000 });
  assert.equal(received, 0);
  const streamed = await post(1_000_000, { "transfer-encoding": "chunked" });
  for (const answer of [declared, streamed]) {
    assert.equal(answer.status, 413);
    assert.equal(answer.headers["x-pierhead-revision"], "rev-1");
    assert.deepEqual(JSON.parse(answer.body.toString()), { detail: "The request body is larger than 100000 bytes." });
  }
  assert.equal(received <= 100_000, true);
  received = 0;
  const exact = await post(100_000, { "transfer-encoding": "chunked" });
  assert.deepEqual([exact.status, exact.body.toString()], [200, "100000"]);
  await eventually(
    () => site.gateway.inFlight("r1"),
    (count) => count === 0,
  );
});

test("answers 504 to a request over the time limit, or breaks off an answer that has begun", async () => {
  await using agent = await startTarget((request, response) => {
    if (request.url === "/stream") response.write("begun");
  });
  await using site = await startGateway({ limits: { requestDurationMs: 2_000 } });
  site.gateway.setRoute(route([agent.target("r1")]));
  const failed: string[] = [];
  site.gateway.onFailedRequest?.(({ path, status, end }) => failed.push(`${path} ${status} ${end}`));

  const answer = await send(site.port, { method: "GET" });
  assert.equal(answer.status, 504);
  assert.equal(answer.headers["x-pierhead-revision"], "rev-1");
  assert.deepEqual(JSON.parse(answer.body.toString()), {
    detail: "Revision rev-1 did not answer within 2 s, the time limit of a request.",
  });
  const stream = await exchangeRaw(site.port, "GET /d/demo/stream HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.match(stream, /begun\r\n$/);
  await eventually(
    () => site.gateway.inFlight("r1"),
    (count) => count === 0,
  );
  assert.equal(site.gateway.counts()[0]?.failures.overdue, 2);
  assert.deepEqual(failed, ["/x 504 refused", "/stream 200 stopped"]);
});

test("ends the upload when the answer comes before the body was read, and keeps the connection usable", async () => {
  await using agent = await startTarget((_, response) => void response.writeHead(401).end("no"));
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const agentOfOne = new Agent({ keepAlive: true, maxSockets: 1 });
  for (let at = 0; at < 3; at += 1) {
    const body = Buffer.alloc(2_000_000);
    const answer = await send(
      site.port,
      { method: "POST", agent: agentOfOne, headers: { "content-length": body.length } },
      body,
    );
    assert.deepEqual([answer.status, answer.body.toString()], [401, "no"]);
  }
  agentOfOne.destroy();
  await eventually(
    () => site.gateway.inFlight("r1"),
    (count) => count === 0,
  );
});

test("slows the agent server down for a client that reads slowly, instead of buffering", async () => {
  let isFull = false;
  await using agent = await startTarget((_, response) => {
    response.writeHead(200);
    const chunk = Buffer.alloc(1_000_000);
    for (let at = 0; at < 100 && !isFull; at += 1) isFull = !response.write(chunk) && at > 90;
    response.on("drain", () => response.end());
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const answer = await new Promise<IncomingMessage>((resolve) => get(`${site.url}/d/demo/`, resolve));
  answer.pause();
  const read = () => site.gateway.counts()[0]?.bytesOut ?? 0;
  let last = -1;
  await eventually(
    () => read(),
    (bytes) => {
      const isSteady = bytes > 0 && bytes === last;
      last = bytes;
      return isSteady;
    },
  );
  assert.equal(read() < 50_000_000, true, `${read()} bytes taken from the agent server`);
  answer.destroy();
});

/** A process that listens but accepts no connection. Its queue is filled until the kernel lets new clients wait. */
async function startDeafTarget() {
  const program = `require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, function () {
    require("node:fs").writeSync(1, String(this.address().port));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  })`;
  const child = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  const [chunk] = await once(child.stdout, "data");
  const port = Number(chunk);
  const callers: Socket[] = [];
  for (let isFull = false; !isFull; ) {
    const caller = connect(port, "127.0.0.1").on("error", () => {});
    callers.push(caller);
    const end = Date.now() + 500;
    await eventually(
      () => caller.connecting && Date.now() < end,
      (isPending) => !isPending,
    );
    // A connection that was accepted while this process was busy reports it now.
    await new Promise(setImmediate);
    isFull = caller.connecting;
  }
  return {
    target: (replicaId: string) => ({ replicaId, host: "127.0.0.1", port }),
    async [Symbol.asyncDispose]() {
      for (const caller of callers) caller.destroy();
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

interface Sent {
  method: string;
  agent?: Agent;
  headers?: Record<string, string | number>;
}

function send(port: number, options: Sent, body?: Buffer) {
  type Answer = { status: number; headers: IncomingMessage["headers"]; body: Buffer };
  return new Promise<Answer>((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, path: "/d/demo/x", agent: false, ...options }, (answer) => {
      const { statusCode: status = 0, headers } = answer;
      readBody(answer).then((read) => resolve({ status, headers, body: read }), reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

const digest = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
