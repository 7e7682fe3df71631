import assert from "node:assert/strict";
import { test } from "node:test";
import { ParseTurns } from "../../src/api/http/parse-turns.ts";

/** Signal of a client that does not leave. */
const stays = new AbortController().signal;

test("large bodies of one workspace are parsed one after the other with pauses, those of another meanwhile", async () => {
  const turns = new ParseTurns();
  const parsed: string[] = [];
  const parse = (name: string, tookMs: number) => () => {
    parsed.push(name);
    const end = performance.now() + tookMs;
    while (performance.now() < end);
  };
  const first = turns.take("a", parse("first", 100), stays);
  const second = turns.take("a", parse("second", 0), stays);
  await first;
  const endedAt = performance.now();
  await turns.take("b", parse("other", 0), stays);
  assert.deepEqual(parsed, ["first", "other"]);
  await second;
  assert.ok(performance.now() - endedAt >= 95);
  assert.equal(parsed.at(-1), "second");
});

test("a body that is refused lets the next one be parsed", async () => {
  const turns = new ParseTurns();
  const refuse = () => {
    throw new Error("refused");
  };
  await assert.rejects(turns.take("a", refuse, stays), /refused/);
  assert.equal(await turns.take("a", () => "parsed", stays), "parsed");
});
