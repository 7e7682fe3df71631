import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { removeDoomed } from "../../src/server/files.ts";

/** Dies as soon as what it removes is not where it was; thousands of files are still there then. */
const dyingProgram = `
  import { existsSync } from "node:fs";
  import { removeInside } from ${JSON.stringify(import.meta.resolve("../../src/server/files.ts"))};
  const [base, target] = process.argv.slice(1);
  void removeInside(base, target);
  const look = () => (existsSync(target) ? setImmediate(look) : process.kill(process.pid, "SIGKILL"));
  look();`;

test("what a server was deleting when it was killed goes at the next start; what lies beside it stays", async () => {
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
    assert.ok((await readdir(base, { recursive: true })).length > 4, "both died before they had come to their end");
    assert.equal(await removeDoomed(base), 2);
    assert.deepEqual((await readdir(base, { recursive: true })).sort(), ["kept", path.join("kept", "source.tar.gz")]);
    assert.equal(await removeDoomed(base), 0);
  } finally {
    await rm(base, { recursive: true });
  }
});
