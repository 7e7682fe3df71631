import assert from "node:assert/strict";
import { test } from "node:test";
import { shortenText } from "../../src/base/shorten-text.ts";

test("keeps a text that is short enough as it is", () => {
  for (const text of ["", "short", "a\nb\n", "😀".repeat(10)]) assert.equal(shortenText(text, 10), text);
});

test("cuts a sentence after a whole word", () => {
  assert.equal(shortenText("The agent server ended before it was ready.", 20), "The agent server…");
  assert.equal(shortenText("The agent server ended before it was ready.", 18), "The agent server…");
});

test("cuts a log after a whole line", () => {
  assert.equal(
    shortenText("It ended.\nTraceback (most recent call last):\n  File main.py", 50),
    "It ended.\nTraceback (most recent call last):\n…",
  );
});

test("cuts a text without spaces anywhere, but never a character in two", () => {
  assert.equal(shortenText("x".repeat(100), 20), `${"x".repeat(18)}…`);
  assert.equal(shortenText("😀".repeat(100), 20), `${"😀".repeat(18)}…`);
  assert.equal(shortenText(`see ${"x".repeat(100)}`, 20), `see ${"x".repeat(14)}…`);
});

test("never returns more than the maximum", () => {
  const text = "Eine Meldung\nmit 😀 und Wörtern ".repeat(30);
  for (let max = 10; max < 200; max++) assert.ok([...shortenText(text, max)].length <= max, `${max}`);
});
