import assert from "node:assert/strict";
import { test } from "node:test";
import { eventStreamsMax } from "../../src/domain/limits.ts";
import { startWithTwoWorkspaces } from "./two-workspaces.ts";

const tooMany = 50;

test("one key must not use up the event streams of other keys", async () => {
  await using world = await startWithTwoWorkspaces();
  const { pierhead, attacker, victim } = world;
  const leaving = new AbortController();
  const open = (apiKey: string) =>
    fetch(`${pierhead.url}/v2/events`, {
      headers: { "x-api-key": apiKey, accept: "text/event-stream" },
      signal: leaving.signal,
    });
  const { key: reader } = await attacker.api.createApiKey({ body: { name: "reader", role: "reader" } });
  const share = eventStreamsMax / 4;
  /** Kept, because Node closes the connection of an answer that is garbage. */
  const answers: Response[] = [];
  try {
    // In batches, because a server accepts 511 connections at once.
    for (let opened = 0; opened < share + tooMany; opened += 100) {
      answers.push(...(await Promise.all(Array.from({ length: 100 }, () => open(reader as string)))));
    }
    const refused = answers.filter(({ status }) => status === 429);
    assert.equal(answers.filter(({ status }) => status === 200).length, share);
    assert.equal(refused.length, answers.length - share);
    const detail = await refused[0]?.text();
    assert.match(detail ?? "", /This key holds its share of this server's event streams, which is 1250/);
    assert.equal(refused[0]?.headers.get("retry-after"), "5");
    const other = await open(victim.apiKey);
    assert.equal(other.status, 200);
  } finally {
    leaving.abort();
  }
});
