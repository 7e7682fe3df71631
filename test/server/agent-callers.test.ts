import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { test } from "node:test";
import { mintApiKey } from "../../src/auth/api-key.ts";
import { route, startTarget } from "../gateway/harness.ts";
import { startTestServer } from "../support/server.ts";

test("limits guesses of keys for an agent by client address", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
  await using agent = await startTarget((_request, response) => void response.end("hello"));
  pierhead.server.gateway.setRoute(
    route([agent.target("r1")], { deploymentId: randomUUID(), admission: { workspaceId: null } }),
  );

  const ask = async (localAddress: string, key: string) => {
    const headers = { "x-api-key": key };
    const [answer] = (await once(
      request(`${pierhead.url}/d/demo/runs`, { localAddress, headers }).end(),
      "response",
    )) as [IncomingMessage];
    answer.resume();
    await once(answer, "end");
    return answer.statusCode;
  };
  const guesses: (number | undefined)[] = [];
  while (guesses.length < 2_000 && guesses.at(-1) !== 429) guesses.push(await ask("127.0.0.2", mintApiKey().key));
  assert.deepEqual([guesses[0], guesses.at(-1)], [401, 429]);
  assert.equal(await ask("127.0.0.1", pierhead.apiKey), 200, "a valid new key from another address");
});
