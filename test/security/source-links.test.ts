import assert from "node:assert/strict";
import { symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { readProject } from "../../src/builds/detect/project.ts";
import { planStart } from "../../src/builds/image/commands.ts";
import { scratch, writeFiles } from "../builds/fixtures.ts";

test("the start command of an image names nothing of a package.json of the server that a link leads to", async () => {
  await using place = await scratch();
  const sourceDir = path.join(place.dir, "source");
  await writeFiles(sourceDir, { "pierhead.json": '{"start": ["script:start"]}' });
  await writeFiles(place.dir, { "of-another.json": '{"scripts": {"start": "node secret.js"}}' });
  await symlink("../of-another.json", path.join(sourceDir, "package.json"));
  const project = await readProject(sourceDir, null, { nodeMajor: 24, target: "image" });
  assert.ok(project.kind === "command");
  assert.deepEqual(await planStart(sourceDir, project), ["npm", "run", "start"]);
});
