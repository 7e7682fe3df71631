import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { listenerRules } from "../../src/compute/kubernetes/role.ts";
import { configurationReference } from "../../src/server/config-reference.ts";

test("the configuration page is what the code makes of its settings", () => {
  const page = readFileSync("docs/reference/configuration.md", "utf8");
  assert.equal(page, configurationReference(), "run: npm run generate");
});

test("the chart's Role is the one that the tests run under", () => {
  const file = readFileSync("deploy/helm/pierhead-listener/files/rules.json", "utf8");
  assert.equal(file, `${JSON.stringify(listenerRules, null, 2)}\n`, "run: npm run generate");
});
