import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { finishRemovals, writeDurably } from "../../src/server/files.ts";

/** Kills itself as soon as the removed directory has left its path, while thousands of its files still exist. */
const dyingProgram = `
  import { existsSync } from "node:fs";
  import { removeInside } from ${JSON.stringify(import.meta.resolve("../../src/server/files.ts"))};
  const [base, target] = process.argv.slice(1);
  void removeInside(base, target);
  const look = () => (existsSync(target) ? setImmediate(look) : process.kill(process.pid, "SIGKILL"));
  look();`;

test("finishes the deletions of a killed server at the next start and keeps other files", async () => {
  const base = await mkdtemp(path.join(tmpdir(), "pierhead-uploads-"));
  const directoryOf = async (id: string, files: string[]) => {
    await mkdir(path.join(base, id));
    for (const file of files) await writeFile(path.join(base, id, file), "");
  };
  const killIn = async (target: string) => {
    const program = ["--input-type=module", "-e", dyingProgram, base, path.join(base, target)];
    assert.deepEqual(await once(spawn(process.execPath, program), "exit"), [null, "SIGKILL"]);
  };
  try {
    const many = Array.from({ length: 3_000 }, (_, index) => String(index));
    await directoryOf("kept", ["source.tar.gz"]);
    await directoryOf("gone", many);
    await mkdir(path.join(base, "kept", "one"));
    for (const file of many) await writeFile(path.join(base, "kept", "one", file), "");
    await killIn("gone");
    await killIn(path.join("kept", "one"));
    assert.ok((await readdir(base, { recursive: true })).length > 4, "both programs died before they finished");
    assert.equal(await finishRemovals(base), 2);
    assert.deepEqual((await readdir(base, { recursive: true })).sort(), ["kept", path.join("kept", "source.tar.gz")]);
    assert.equal(await finishRemovals(base), 0);
  } finally {
    await rm(base, { recursive: true });
  }
});

test("removes the temporary file of an interrupted write at the next write", async () => {
  const base = await mkdtemp(path.join(tmpdir(), "pierhead-small-files-"));
  const file = path.join(base, "credentials.json");
  const dyingInWrite = `
    import fs from "node:fs/promises";
    import { syncBuiltinESMExports } from "node:module";
    fs.rename = async () => process.kill(process.pid, "SIGKILL");
    syncBuiltinESMExports();
    const { writeDurably } = await import(${JSON.stringify(import.meta.resolve("../../src/server/files.ts"))});
    await writeDurably(process.argv[1], "a key", 0o600);`;
  try {
    const dying = spawn(process.execPath, ["--input-type=module", "-e", dyingInWrite, file]);
    assert.deepEqual(await once(dying, "exit"), [null, "SIGKILL"]);
    assert.equal((await readdir(base)).length, 1, "the program died before the rename");
    await writeDurably(file, "another", 0o600);
    assert.deepEqual(await readdir(base), ["credentials.json"]);
    assert.deepEqual([await readFile(file, "utf8"), (await stat(file)).mode & 0o777], ["another", 0o600]);
  } finally {
    await rm(base, { recursive: true });
  }
});
