import assert from "node:assert/strict";
import { test } from "node:test";
import { startWithTwoWorkspaces } from "./two-workspaces.ts";

/** As many as are refused at once, by docs/reference/requests.md. */
const burst = 100;

test("a key must not keep the server busy with bodies that it refuses, and others must not notice", async () => {
  await using world = await startWithTwoWorkspaces({});
  const { pierhead, attacker, victim } = world;
  const send = async ({ apiKey }: { apiKey: string }, body: string) => {
    const headers = { "x-api-key": apiKey, "content-type": "application/json" };
    const answer = await fetch(`${pierhead.url}/v2/deployments`, { method: "POST", headers, body });
    await answer.text();
    return answer.status;
  };
  for (let count = 0; count < burst; count += 10) {
    assert.deepEqual(new Set(await Promise.all(Array.from({ length: 10 }, () => send(attacker, "{")))), new Set([422]));
  }
  let tookMs = 0;
  // Five a second are forgiven, so a slow machine needs some more.
  for (let count = 0, status = 422; status !== 429; count += 1) {
    assert.ok(count < 1_000, "no body was refused");
    const beganAt = performance.now();
    status = await send(attacker, "{");
    tookMs = performance.now() - beganAt;
  }
  assert.ok(tookMs >= 1_000, `refused after ${tookMs} ms`);
  assert.equal(await send(victim, "{"), 422);
});
