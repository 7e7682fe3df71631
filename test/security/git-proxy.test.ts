import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { resolveRef } from "../../src/integrations/git.ts";

/** The operator's proxy. It refuses everything, and records what it was asked for. */
const asked: string[] = [];
const proxy = createServer((request, response) => {
  asked.push(`${request.method} ${request.url}`);
  response.writeHead(403, { connection: "close" }).end();
});
proxy.on("connect", ({ url }, socket) => {
  asked.push(`CONNECT ${url}`);
  socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
});
const names = ["http_proxy", "https_proxy"] as const;
before(async () => {
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  for (const name of names) process.env[name] = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
});
after(() => {
  for (const name of names) delete process.env[name];
  proxy.close();
});

const remote = { credential: null, allowLocal: false, timeoutMs: 20_000 };
const read = (repoUrl: string, allowPrivateNetwork = false) =>
  resolveRef({ ...remote, repoUrl, allowPrivateNetwork, ref: "main", signal: AbortSignal.timeout(30_000) });

test("a proxy, which looks names up again, must not fetch plain HTTP for a user", async () => {
  await assert.rejects(read("http://93.184.215.14/acme/bot"), { reason: "UrlRefused", message: /Use https:\/\// });
  assert.deepEqual(asked, []);
  // The certificate of the host must fit the name, wherever the proxy leads.
  await assert.rejects(read("https://93.184.215.14/acme/bot"));
  assert.deepEqual([...new Set(asked.splice(0))], ["CONNECT 93.184.215.14:443"]);
  await assert.rejects(read("http://93.184.215.14/acme/bot", true));
  assert.match(asked[0] ?? "", /^GET http:\/\/93\.184\.215\.14\/acme\/bot/);
});
