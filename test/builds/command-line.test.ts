import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseCommandLine, showCommand } from "../../src/builds/detect/command-line.ts";

const parse = (text: string, cwd = ".") => parseCommandLine(text, { cwd, what: "install command" });

test("interprets words, quotes, assignments, `&&` and `cd` as a shell does", () => {
  assert.deepEqual(parse("npm ci"), [{ argv: ["npm", "ci"], cwd: ".", env: {} }]);
  assert.deepEqual(parse("A=b C='d e' npm run build && cd web/app && npx tsc -p 'a b'", "sub"), [
    { argv: ["npm", "run", "build"], cwd: "sub", env: { A: "b", C: "d e" } },
    { argv: ["npx", "tsc", "-p", "a b"], cwd: "sub/web/app", env: {} },
  ]);
  assert.deepEqual(parse(`echo a'b'"c" '' "don't" pkg@~1 'x*y'`)[0]?.argv, [
    "echo",
    "abc",
    "",
    "don't",
    "pkg@~1",
    "x*y",
  ]);
  assert.deepEqual(
    parse("a&&b").map(({ argv }) => argv),
    [["a"], ["b"]],
  );
  assert.deepEqual(parse("cd a && cd .. && b")[0], { argv: ["b"], cwd: ".", env: {} });
});

test("rejects syntax that needs a shell instead of passing it on literally", () => {
  const texts = [
    "a; b",
    "a | b",
    "a || b",
    "a & b",
    "a &",
    "a &&& b",
    "a > f",
    "a < f",
    "$(a)",
    "`a`",
    "a $HOME",
    'a "$HOME"',
    "a \\; b",
    "rm *",
    "ls ?",
    "ls [ab]",
    "~/a",
    "a ~",
    "# comment",
    "a # b",
    "(a)",
    "{ a",
    "! a",
    "a\nb",
    "a\rb",
    "a\0b",
    "",
    "  ",
    "&&",
    "a &&",
    "&& a",
    "a && && b",
    "'a",
    '"a',
    "A=b",
    "cd",
    "cd a b",
    "cd ..",
    "cd /etc",
    "cd a/../..",
  ];
  for (const text of texts) assert.throws(() => parse(text), { reason: "CommandInvalid" }, text);
});

test("parses every formatted command back to the same words", () => {
  const word = fc.string({ unit: fc.constantFrom(..."ab1 '\"$`;|&*?~#=\\é-") });
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 4 }), (words) => {
      const argv = ["run", ...words];
      // A single quote inside single quotes needs the backslash of a shell, which is rejected, so nothing is misread.
      if (argv.some((given) => given.includes("'"))) return;
      assert.deepEqual(parse(showCommand(argv))[0]?.argv, argv);
    }),
  );
});
