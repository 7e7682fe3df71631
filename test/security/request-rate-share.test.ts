import assert from "node:assert/strict";
import { test } from "node:test";
import { startWithTwoWorkspaces } from "./two-workspaces.ts";

const burst = 20;

for (const path of ["/v2/deployments?limit=1", "/v2/admin/tags"])
  test(`a workspace with many keys must not send more requests to ${path} than its share, and its refused ones must stay few`, () =>
    mustKeepShare(path));

async function mustKeepShare(path: string): Promise<void> {
  await using world = await startWithTwoWorkspaces({ PIERHEAD_RATE_LIMIT: "1", PIERHEAD_RATE_LIMIT_BURST: `${burst}` });
  const { pierhead, attacker, victim } = world;
  const keys: string[] = [];
  for (let count = 0; count < 4; count += 1) {
    keys.push((await attacker.api.createApiKey({ body: { name: "admin", role: "admin" } })).key as string);
  }
  const ask = (apiKey: string) =>
    fetch(pierhead.url + path, { headers: { "x-api-key": apiKey } }).then(async (answer) => {
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
}
