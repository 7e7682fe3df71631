import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import type { CommandSpec } from "../../src/cli/command.ts";
import { commandTable } from "../../src/cli/command-table.ts";
import { globalOptions } from "../../src/cli/global-options.ts";
import { changingTools } from "../../src/mcp/changing-tools.ts";
import { readingTools } from "../../src/mcp/reading-tools.ts";

/** The pages that models read, who try every command that they see, and pages whose commands no suite runs. Each command must exist. */
const pages = [
  "docs/llms.txt",
  "docs/skill/SKILL.md",
  "docs/guides/coding-agents.md",
  "docs/guides/migrating.md",
  ...readdirSync("docs/frameworks").map((file) => `docs/frameworks/${file}`),
];

test("every command and option that these pages name exists", () => {
  let seen = 0;
  const offences: string[] = [];
  for (const page of pages) {
    for (const [, line = ""] of readFileSync(page, "utf8").matchAll(/(?:`|-- )(pierhead [a-z][^`\n]*)/g)) {
      seen += 1;
      const unknown = unknownWordOf(line.split(/\s+/).slice(1));
      if (unknown !== undefined) offences.push(`${page}: ${unknown} in "${line}"`);
    }
  }
  assert.ok(seen > 20, `${seen} commands`);
  assert.deepEqual(offences, []);
});

test("the pages for coding agents name every tool, and no other", () => {
  const tools = [...readingTools, ...changingTools].map(({ name }) => name).sort();
  for (const page of ["docs/skill/SKILL.md", "docs/guides/coding-agents.md"]) {
    const text = readFileSync(page, "utf8");
    assert.deepEqual(
      tools.filter((name) => !text.includes(`\`${name}\``)),
      [],
      page,
    );
    const named = [...text.matchAll(/`([a-z]+(?:_[a-z]+)+)`/g)].map(([, name = ""]) => name);
    assert.deepEqual(
      named.filter((name) => !tools.includes(name)),
      [],
      page,
    );
  }
});

test("every link of llms.txt leads to a page", () => {
  const links = [...readFileSync("docs/llms.txt", "utf8").matchAll(/\]\(([^)]+)\)/g)].map(([, target = ""]) => target);
  assert.ok(links.length > 15);
  assert.deepEqual(
    links.filter((target) => !existsSync(path.join("docs", target))),
    [],
  );
});

/** Returns the first word that is neither a command nor an option of it. */
function unknownWordOf(words: string[]): string | undefined {
  let specs: readonly CommandSpec[] = commandTable;
  let spec: CommandSpec | undefined;
  for (const word of words) {
    if (word === "--") return undefined; // What follows is the user's own program.
    if (word.startsWith("-")) {
      const flags = [...(spec?.options ?? []), ...globalOptions].flatMap(([text]) => text.split(/[ ,]+/));
      if (!flags.includes(word)) return word;
    } else if (specs.length > 0) {
      spec = specs.find(({ name }) => name === word);
      if (spec === undefined) return word;
      specs = spec.commands ?? [];
    }
  }
  return undefined;
}
