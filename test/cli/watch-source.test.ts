import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { appendFile, mkdir, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { listFiles } from "../../src/cli/source/list-files.ts";
import { watchSource } from "../../src/cli/source/watch-source.ts";
import { createDirectory } from "./run-cli.ts";

/** Returns what waits for the next change, and lists the files again, as `pierhead dev` does. */
async function watched(t: TestContext, root: string, extra?: string) {
  const watch = watchSource((error) => assert.fail(error));
  t.after(() => watch[Symbol.dispose]());
  const cover = () => watch.cover(root, async () => (await listFiles(root, t.signal)).files, extra);
  await cover();
  return async (act: () => Promise<unknown>) => {
    await act();
    await watch.changed(AbortSignal.any([t.signal, AbortSignal.timeout(20_000)]));
    return cover();
  };
}

test("notices a file in a directory that was empty before", async (t) => {
  await using project = await createDirectory({ "main.py": "" });
  const at = (file: string) => path.join(project.directory, file);
  const after = await watched(t, project.directory);
  await after(() => mkdir(at("tools/words"), { recursive: true }));
  assert.deepEqual(await after(() => writeFile(at("tools/words/one.py"), "")), ["main.py", "tools/words/one.py"]);
});

test("notices changes in a directory that replaced one of the same name", async (t) => {
  await using project = await createDirectory({ "main.py": "", "words/in/one.py": "", "newer/in/two.py": "" });
  const at = (file: string) => path.join(project.directory, file);
  const after = await watched(t, project.directory);
  await after(async () => {
    await rm(at("words"), { recursive: true });
    await rename(at("newer"), at("words"));
  });
  await after(() => appendFile(at("words/in/two.py"), "a = 1"));
});

test("notices a change beside a file that is written all the time, and one of a file elsewhere", async (t) => {
  await using project = await createDirectory({ "main.py": "", ".gitignore": "log" });
  await using elsewhere = await createDirectory({ "variables.env": "A=1" });
  const after = await watched(t, project.directory, path.join(elsewhere.directory, "variables.env"));
  await after(() => writeFile(path.join(elsewhere.directory, "variables.env"), "A=2"));
  const timer = setInterval(() => appendFileSync(path.join(project.directory, "log"), "x"), 50);
  // Ends before the directory is removed.
  using _noise = { [Symbol.dispose]: () => clearInterval(timer) };
  await after(() => writeFile(path.join(project.directory, "main.py"), "a = 1"));
});
