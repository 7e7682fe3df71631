import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { cliReference } from "../../src/cli/reference.ts";

test("docs/reference/cli.md matches the command tables; `npm run generate` writes it", async () => {
  assert.equal(await readFile("docs/reference/cli.md", "utf8"), cliReference());
});
