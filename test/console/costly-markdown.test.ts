import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { isCostlyMarkdown } from "../../console/src/agent/costly-markdown.ts";

const repeated = (text: string, times: number) => text.repeat(times);

test("long texts that people write are formatted", async () => {
  const readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
  const texts = [
    repeated(`${readme}\n\n`, 50),
    repeated("*one* and _two_\n\n", 20_000),
    repeated("| a_b | *c* |\n", 1_000),
    repeated("- ", 50),
    repeated("-", 5_000),
    repeated("> quoted\n", 5_000),
  ];
  for (const text of texts) assert.equal(isCostlyMarkdown(text), false, text.slice(0, 40));
});

test("texts that would hang the tab stay as they are", () => {
  const texts = [repeated("*a _b ", 10_000), repeated("~a", 5_000), repeated("[^a]", 5_000)];
  const nested = [repeated("> ", 5_000), repeated("- ", 2_000), repeated("1. ", 500), repeated(">", 5_000)];
  for (const text of [...texts, ...nested, `Hello\n\n${repeated("* ", 2_000)}`]) {
    assert.equal(isCostlyMarkdown(text), true, text.slice(0, 40));
  }
});
