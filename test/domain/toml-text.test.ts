import assert from "node:assert/strict";
import { test } from "node:test";
import { requirementNames, tomlList, tomlSection, tomlString } from "../../src/domain/detection/toml-text.ts";

test("reads lists and names in the TOML that tools write", () => {
  const text =
    "[build-system]\nrequires = [\"x\"]\n[project] # mine\nname = 'a'\ndependencies = [ # some\n \"b[c,d]>=1\", 'e' ]\n[tool.x]\ny = 1\n";
  const project = tomlSection(text, "project");
  assert.equal(tomlString(project, "name"), "a");
  assert.deepEqual(tomlList(project, "dependencies"), ["b[c,d]>=1", "e"]);
  assert.deepEqual(tomlList(project, "absent"), []);
  assert.equal(tomlSection(text, "absent"), "");
  assert.deepEqual(
    requirementNames(["a==1", "b[x] ; python_version > '3'", "# c", "-r d.txt", "e @ https://e.invalid/e.whl", "f"]),
    ["a", "b", "e", "f"],
  );
});
