import assert from "node:assert/strict";
import { test } from "node:test";
import { parseEnv } from "node:util";
import { rebased } from "../../console/src/environment.ts";
import { parseDotenv } from "../../console/src/parts/text.ts";

test("staged changes of the environment undo nothing that others changed meanwhile", () => {
  const of = (text: string) => ({
    secrets: text.split(" ").map((pair) => ({ name: pair.slice(0, 1), value: pair.slice(1) })),
    references: [],
  });
  const base = of("a1 b1 c1 d1");
  const staged = of("a2 c1 d1 e1"); // a changed, b removed, e added
  const now = of("a1 b1 c2 f1"); // c changed, d removed, f added
  assert.deepEqual(rebased(now, base, staged), of("a2 c2 f1 e1"));
  assert.deepEqual(rebased(base, base, staged), staged);
});

test("a .env file that is pasted is read as the command line reads it: keys of several lines, quotes, comments", () => {
  const file = [
    "# names and values",
    'KEY="-----BEGIN PRIVATE KEY-----\nQUJD==\n-----END PRIVATE KEY-----" # of several lines',
    "export PLAIN = spaced out  # said",
    "HASH=abc#def\r\nQUOTED='# none'",
    "TICKS=`\"both\" 'quotes'`",
    'ESCAPED="one\\ntwo"',
    "RAW='one\\ntwo'",
    'TWICE=1\nTWICE="it\'s 2" # not "3"',
    "EMPTY=\nNONE=''",
    "NOT A NAME",
    'OPEN="begun',
  ].join("\n");
  const read = Object.fromEntries(parseDotenv(file).map(({ name, value }) => [name, value]));
  assert.deepEqual(read, { ...parseEnv(file) });
  assert.equal(Object.keys(read).length, 11);
});
