import assert from "node:assert/strict";
import { chmod, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { readProject } from "../../src/builds/detect/project.ts";
import { findServerRequirements } from "../../src/builds/python/server-requirements.ts";
import type { PythonServer } from "../../src/builds/python/wanted-version.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { scratch, writeFiles } from "./fixtures.ts";

/** Exports like uv: versions, or the files of a lock. It fails in other directories than that of the workspace. */
const uv = `#!/bin/sh
for word; do file=$word; done
case "$*" in
  *"--package web"*) ;;
  *) exit 2 ;;
esac
case "$*" in
  *pylock*) echo "lock-version" > "$file" ;;
  *) echo "pglast==7.11" > "$file" ;;
esac
`;

test("installs the files that a uv.lock names when the index does not list a version, before it gives the versions up", async () => {
  await using place = await scratch();
  const sourceDir = path.join(place.dir, "source");
  await writeFiles(sourceDir, {
    "uv.lock": "version = 1\n",
    "pyproject.toml": '[tool.uv.workspace]\nmembers = ["web"]\n',
    "web/pierhead.json": JSON.stringify({ start: ["python", "a.py"], python: true }),
    "web/pyproject.toml": '[project]\nname = "web"\ndependencies = ["pglast==7.11"]\n',
  });
  await writeFiles(place.dir, { uv });
  await chmod(path.join(place.dir, "uv"), 0o755);
  const context = {
    sourceDir,
    cacheDir: path.join(place.dir, "cache"),
    env: { PATH: "/usr/bin:/bin" },
    log: new BuildLog(() => {}),
    signal: new AbortController().signal,
  };
  const project = await readProject(sourceDir, "web/pierhead.json", { nodeMajor: 24, target: "directory" });
  const found = await findServerRequirements(context, project as PythonServer, path.join(place.dir, "uv"));
  assert.equal(found.first, undefined);
  const ofFiles = await found.unlocked?.("python3", []);
  assert.deepEqual(ofFiles?.argv, found.argv);
  const [option, file = ""] = ofFiles?.first ?? [];
  assert.deepEqual(
    [option, path.basename(file), await readFile(file, "utf8")],
    ["--requirement", "pylock.toml", "lock-version\n"],
  );
  const allowed = await ofFiles?.unlocked?.("python3", []);
  assert.equal(allowed?.first, undefined, "what the project allows comes last");
  assert.notDeepEqual(allowed?.argv, found.argv);
});
