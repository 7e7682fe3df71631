import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { pythonPaths } from "../../src/cli/source/python-paths.ts";
import { scratch, writeFiles } from "../builds/fixtures.ts";

test("finds the directories outside a project that its requirements.txt names", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, {
    "web/requirements.txt":
      "-e file:../shared\nwords[all] @ file:../words\nroot @ file://../root\n../plain\n-r ../base/common.txt\n-r ../all.txt\n-c ../../all.txt\nhttpx>=0.28\n",
    "shared/pyproject.toml": "",
    "words/pyproject.toml": "",
    "root/pyproject.toml": "",
    "plain/setup.py": "",
    "base/common.txt": "",
    "all.txt": "",
  });
  const found = await pythonPaths(path.join(place.dir, "web"));
  assert.deepEqual(found.map((one) => path.relative(place.dir, one)).sort(), [
    "base",
    "plain",
    "root",
    "shared",
    "words",
  ]);
});
