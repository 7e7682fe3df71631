import assert from "node:assert/strict";
import { test } from "node:test";
import { mergeChanges } from "../../console/src/environment.ts";

test("staged environment changes keep the changes that other users made in the meantime", () => {
  const of = (text: string) => ({
    secrets: text.split(" ").map((pair) => ({ name: pair.slice(0, 1), value: pair.slice(1) })),
    references: [],
  });
  const base = of("a1 b1 c1 d1");
  const staged = of("a2 c1 d1 e1"); // a changed, b removed, e added
  const now = of("a1 b1 c2 f1"); // c changed, d removed, f added
  assert.deepEqual(mergeChanges(now, base, staged), of("a2 c2 f1 e1"));
  assert.deepEqual(mergeChanges(base, base, staged), staged);
});
