import assert from "node:assert/strict";
import { test } from "node:test";
import { startWithTwoWorkspaces } from "./two-workspaces.ts";

const burst = 20;

test("a workspace with many keys must not send more requests than its share, and its refused ones must stay few", async () => {
  await using world = await startWithTwoWorkspaces({ PIERHEAD_RATE_LIMIT: "1", PIERHEAD_RATE_LIMIT_BURST: `${burst}` });
  const { pierhead, attacker, victim } = world;
  const keys: string[] = [];
  for (let count = 0; count < 4; count += 1) {
    keys.push((await attacker.api.createApiKey({ body: { name: "reader", role: "reader" } })).key as string);
  }
  const ask = (apiKey: string) =>
    fetch(`${pierhead.url}/v2/deployments?limit=1`, { headers: { "x-api-key": apiKey } }).then(async (answer) => {
      await answer.text();
      return answer.status;
    });
  const beganAt = performance.now();
  const statuses: number[] = [];
  const sendWithOneConnection = async (apiKey: string) => {
    for (let count = 0; count < burst + 4; count += 1) statuses.push(await ask(apiKey));
  };
  await Promise.all(keys.map(sendWithOneConnection));
  const elapsedS = (performance.now() - beganAt) / 1_000;
  const admitted = statuses.filter((status) => status === 200).length;
  assert.ok(admitted <= 2 * (burst + elapsedS), `${admitted} of ${statuses.length} requests were admitted`);
  const refused = statuses.length - admitted;
  assert.ok(elapsedS >= (refused / keys.length) * 0.25, `${refused} requests were refused in ${elapsedS} s`);
  assert.equal(await ask(victim.apiKey), 200);
});
