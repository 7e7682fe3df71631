import assert from "node:assert/strict";
import { test } from "node:test";
import { parseEnv } from "node:util";
import { dotenvOf, parseDotenv, refusedLines } from "../../src/domain/dotenv.ts";

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

test("names the lines that are no variables", () => {
  const file = "A=1\n# comment\n\nexport\nKEY='two\nlines'\n  loose words\nB=2\r\n=nameless";
  assert.deepEqual(refusedLines(file), [
    { line: 4, text: "export" },
    { line: 7, text: "  loose words" },
    { line: 9, text: "=nameless" },
  ]);
  assert.deepEqual(refusedLines('OPEN="a\nB="c"'), []);
});

test("writes variables so that they are read back unchanged", () => {
  const values = ["plain", "", " spaced ", "a # b", "it's", "\"both\" 'quotes'", "two\nlines", "C:\\new", "`tick`"];
  const variables = values.map((value, at) => ({ name: `V${at}`, value }));
  assert.deepEqual(parseDotenv(dotenvOf(variables)), variables);
});
