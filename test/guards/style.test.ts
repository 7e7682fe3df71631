import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";

/**
 * The mechanical part of docs/contributing/style.md. A text that uses one of these words reads like a translation; each has a
 * standard word that says it better, named in that page.
 */
const banned: readonly (readonly [pattern: RegExp, use: string])[] = [
  [/\banew\b/i, "again, a new one"],
  [/\bthrice\b/i, "three times"],
  [/\bfor ever\b/i, "forever, without end, indefinitely"],
  [/\bby (itself|themselves)\b/i, "automatically, alone, on its own"],
  [/\bin place of\b/i, "instead of"],
  [/\bthat (is|are) none\b/i, "say what it is not"],
  [/\b(is|are|was|were|be|been|being|gets?) (told|said)\b/i, "returns, reports, logs, shows, receives"],
  [/\bsa(ys?|id) so\b/i, "reports, returns, logs"],
  [/\b\d+ in all\b|\bin all[.,;:)]/i, "in total"],
  [/\bwho(so)?ever\b/i, "name the actor"],
  [/(?<![\w/"'`])nobody\b(?![\w/."'`])/i, "name the actor: no user, no caller, no server"],
  [/\bsomebody\b/i, "name the actor: a user, a caller, another program"],
  [/\blook(s|ed|ing)? again\b/i, "check again, poll, recheck"],
  [/\b(is|are|was|were) heard\b/i, "reports, responds"],
  [/\bkin\b/i, "name the others"],
  [/\bhenceforth\b|\bthereof\b|\bthereby\b|\bwherein\b|\bwhereupon\b/i, "plain words"],
];

const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => /\.(ts|tsx|mts|mjs|css|html|md|py|sql|yaml|tpl|go|txt)$|^\.ci\//.test(file))
  .filter((file) => !/^(templates|examples)\/.*\.(ts|py)$|requirements\.txt$/.test(file));

/** These pages name the banned words to explain them. */
const explain = ["test/guards/style.test.ts", "docs/contributing/style.md"];

test("no text uses a word that docs/contributing/style.md replaces by a standard one", () => {
  const offences: string[] = [];
  for (const file of tracked.filter((name) => !explain.includes(name))) {
    for (const [index, line] of readFileSync(file, "utf8").split("\n").entries()) {
      for (const [pattern, use] of banned) {
        const found = line.match(pattern);
        if (found) offences.push(`${file}:${index + 1}: "${found[0]}" (use: ${use})`);
      }
    }
  }
  assert.deepEqual(offences, []);
});

test("no test name is a riddle of two sentences", () => {
  const offences: string[] = [];
  for (const file of tracked.filter((name) => name.startsWith("test/") && name.endsWith(".ts"))) {
    for (const [, name = ""] of readFileSync(file, "utf8").matchAll(/\b(?:test|it|eachDatabase)\(\s*["'`]([^"'`]*)/g))
      if (/; (it|they|he|she|what|who|that)\b/.test(name)) offences.push(`${file}: ${name}`);
  }
  assert.deepEqual(offences, []);
});
