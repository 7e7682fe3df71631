import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { callHost } from "../../src/integrations/host-call.ts";
import { HostFailure } from "../../src/integrations/host-failure.ts";

test("waits as long as a host requests, in seconds or until a date, up to one day", async (context) => {
  let headers: Record<string, string> = {};
  const server = createServer((_, response) => response.writeHead(429, headers).end()).listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const api = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    headers: {},
    allowPrivateNetwork: true,
  };
  const waitS = async (answered: Record<string, string>): Promise<number> => {
    headers = answered;
    const failure = await callHost(api, { path: "/", signal: AbortSignal.timeout(10_000) }).catch((error) => error);
    assert.ok(failure instanceof HostFailure);
    return failure.retryAfterMs / 1_000;
  };
  const isAnHour = (seconds: number) => seconds > 3_500 && seconds <= 3_600;
  const inAnHour = new Date(Date.now() + 3_600_000);
  const used = { "x-ratelimit-remaining": "0" };
  assert.equal(await waitS({ "retry-after": "60" }), 60);
  assert.ok(isAnHour(await waitS({ "retry-after": inAnHour.toUTCString() })));
  assert.ok(isAnHour(await waitS({ ...used, "x-ratelimit-reset": String(Math.floor(inAnHour.getTime() / 1_000)) })));
  for (const nonsense of ["soon", "-1", "", new Date(0).toUTCString()]) {
    assert.equal(await waitS({ "retry-after": nonsense }), 0, nonsense);
    assert.equal(await waitS({ ...used, "x-ratelimit-reset": nonsense }), 0, nonsense);
  }
  for (const tooLong of ["1e300", "99999999999999", new Date(8.64e15 - 1_000).toUTCString()]) {
    assert.ok((await waitS({ "retry-after": tooLong })) <= 86_400, tooLong);
  }
  assert.equal(await waitS({ ...used, "x-ratelimit-reset": "99999999999999" }), 86_400);
});
