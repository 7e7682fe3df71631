import assert from "node:assert/strict";
import { test } from "node:test";
import { knownBuildsText, knowsBuilds } from "../../src/contract/listeners/known-builds.ts";

test("the builds that a listener knows fit into a query in any number and order", () => {
  for (const count of [0, 1, 100, 101, 5_000]) {
    const ids = Array.from({ length: count }, () => crypto.randomUUID());
    const text = knownBuildsText(ids);
    assert.ok(text.length <= 4_000);
    assert.ok(knowsBuilds(text, ids.toReversed()));
    assert.equal(knowsBuilds(text, [...ids, crypto.randomUUID()]), false);
    assert.equal(knowsBuilds(text, ids.slice(1)), count === 0);
  }
});
