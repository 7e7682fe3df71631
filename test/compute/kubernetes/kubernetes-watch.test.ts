import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { ApiServer } from "../../../src/compute/kubernetes/api/api-server.ts";
import { watchKind } from "../../../src/compute/kubernetes/watch/watch.ts";
import { createLogger } from "../../../src/telemetry/log.ts";
import { eventually } from "../../support/eventually.ts";

test("a server that ends each watch at once is retried with pauses, which the log reports", async (context) => {
  let watches = 0;
  const server = createServer((request, response) => {
    if (request.url?.includes("watch=true")) watches += 1;
    response.end(
      request.url?.includes("watch=true") ? "" : JSON.stringify({ items: [], metadata: { resourceVersion: "1" } }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = new ApiServer({ url, ca: null, token: async () => "token" });
  const ending = new AbortController();
  const log: string[] = [];
  const output = new PassThrough().on("data", (line) => log.push(String(line)));
  const what = { kind: "Pod", namespace: "agents", labelSelector: "a=b" };
  const logger = createLogger("warn", output);
  const watching = watchKind(api, what, { onEvent: () => {}, logger, signal: ending.signal });
  try {
    await eventually(
      async () => log.join(""),
      (text) => text.includes("watching objects failed"),
      { timeoutMs: 20_000 },
    );
    assert.match(log.join(""), /the watch ended at once/);
    assert.equal(watches, 3);
  } finally {
    ending.abort();
    await watching;
    api.close();
  }
});
