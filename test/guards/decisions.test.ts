import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const directory = "docs/decisions";
const records = readdirSync(directory).filter((name) => /^\d{4}-[a-z0-9-]+\.md$/.test(name));
const read = (name: string) => readFileSync(`${directory}/${name}`, "utf8");

test("every decision record has the parts of the template, in order", () => {
  const template =
    /^\*\*Status:\*\* (accepted|superseded by .+)\n\n## Context\n[\s\S]+?\n## Decision\n[\s\S]+?\n## Consequences\n/m;
  const offences = records.filter((name) => {
    const optional = [...read(name).matchAll(/^## (.+)$/gm)].map(([, part]) => part).join();
    return !template.test(read(name)) || !/^Context,Decision,(Alternatives,)?(Measured,)?Consequences$/.test(optional);
  });
  assert.deepEqual(offences, []);
});

test("the index of decisions lists every record once, with its number and title", () => {
  const listed = [...read("README.md").matchAll(/^\| \[(\d{4})\]\(([^)]+)\) \| (.+) \|$/gm)];
  assert.deepEqual(listed.map(([, , name]) => name).sort(), [...records].sort());
  for (const [, number, name = "", title] of listed) assert.ok(read(name).startsWith(`# ${number} ${title}\n`), name);
});

test("every decision that code or documentation cites exists", () => {
  const numbers = new Set(records.map((name) => name.slice(0, 4)));
  const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" })
    .split("\n")
    .filter((file) => /\.(ts|tsx|mts|mjs|js|sql|md|yaml|py)$/.test(file));
  const offences: string[] = [];
  for (const file of tracked) {
    for (const [, number = ""] of readFileSync(file, "utf8").matchAll(/\bdecisions?[ /\n*]+(\d{4})\b/gi))
      if (!numbers.has(number)) offences.push(`${file}: decision ${number}`);
  }
  assert.deepEqual(offences, []);
});
