import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { configurationReference } from "../../src/server/config-reference.ts";

test("the configuration page is what the code makes of its settings", () => {
  const page = readFileSync("docs/reference/configuration.md", "utf8");
  assert.equal(page, configurationReference(), "run: npm run generate");
});
