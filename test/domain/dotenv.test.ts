import assert from "node:assert/strict";
import { test } from "node:test";
import { parseEnv } from "node:util";
import { parseDotenv } from "../../src/domain/dotenv.ts";

const read = (file: string) => Object.fromEntries(parseDotenv(file).map(({ name, value }) => [name, value]));

test("reads a .env file as Node does: multi-line values, quotes, comments", () => {
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
  assert.deepEqual(read(file), { ...parseEnv(file) });
  assert.equal(parseDotenv(file).length, 11);
});

test("blanks after an equals sign do not make the next line the value", () => {
  assert.deepEqual(read("EMPTY= \nTOKEN=hunter2\nTAB=\t\r\nLAST=1"), {
    EMPTY: "",
    TOKEN: "hunter2",
    TAB: "",
    LAST: "1",
  });
});

test("an escaped quote does not end a value if a closing quote follows", () => {
  const file = [
    'JSON="{\\"a\\": \\"b # c\\"}" # said',
    'LINES="{\n  \\"a\\": 1\n}"',
    'DIRECTORY="C:\\agents\\"',
    'NEXT="x"',
    'SAID="no \\" end',
  ];
  assert.deepEqual(read(file.join("\n")), {
    JSON: '{"a": "b # c"}',
    LINES: '{\n  "a": 1\n}',
    DIRECTORY: "C:\\agents\\",
    NEXT: "x",
    SAID: "no \\",
  });
});
