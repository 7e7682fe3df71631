import assert from "node:assert/strict";
import { test } from "node:test";
import { ParseTurns } from "../../src/api/http/parse-turns.ts";

const signal = () => new AbortController().signal;
const large = 1_000_000;

test("large bodies of one workspace are parsed one after the other with pauses, those of another and small ones meanwhile", async () => {
  const turns = new ParseTurns();
  const parsed: string[] = [];
  const parse = (name: string, tookMs: number) => () => {
    parsed.push(name);
    const end = performance.now() + tookMs;
    while (performance.now() < end);
  };
  const first = turns.take({ owner: "a", bytes: large, signal }, parse("first", 100));
  const second = turns.take({ owner: "a", bytes: large, signal }, parse("second", 0));
  await first;
  const endedAt = performance.now();
  await turns.take({ owner: "a", bytes: 100, signal }, parse("small", 0));
  await turns.take({ owner: "b", bytes: large, signal }, parse("other", 0));
  assert.deepEqual(parsed, ["first", "small", "other"]);
  await second;
  assert.ok(performance.now() - endedAt >= 95);
  assert.equal(parsed.at(-1), "second");
});

test("a body that is refused lets the next one be parsed", async () => {
  const turns = new ParseTurns();
  const body = { owner: "a", bytes: large, signal };
  const refuse = () => {
    throw new Error("refused");
  };
  await assert.rejects(turns.take(body, refuse), /refused/);
  assert.equal(await turns.take(body, () => "parsed"), "parsed");
});
