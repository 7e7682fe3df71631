import assert from "node:assert/strict";
import { chmod, readFile, stat, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { moveWhole } from "../../src/builds/cache/move-atomically.ts";
import { begin, filesSource, scratch, writeFiles } from "./fixtures.ts";

const isLinux = process.platform === "linux" || "needs sync(1) of Linux";

/** Puts a `sync` first on PATH that records its arguments and the content of `watched`, then exits as configured. */
async function syncThatNotes(directory: string, watched: string, then: string): Promise<string> {
  const notes = path.join(directory, "notes");
  await writeFiles(directory, {
    "bin/sync": `#!/bin/sh\necho "$@" "$(ls -A ${watched} 2>/dev/null | wc -l)" >> ${notes}\n${then}\n`,
  });
  await chmod(path.join(directory, "bin/sync"), 0o755);
  return notes;
}

test("flushes an artifact to disk before it appears at its final path", {
  skip: isLinux !== true && isLinux,
}, async () => {
  await using place = await scratch();
  const artifactsDir = path.join(place.dir, "artifacts");
  const notes = await syncThatNotes(place.dir, artifactsDir, 'exec /usr/bin/env -S PATH=/usr/bin:/bin sync "$@"');
  const source = await filesSource(path.join(place.dir, "in"), {
    "pierhead.json": JSON.stringify({ start: ["node", "server.js"] }),
    "server.js": "",
  });
  const before = process.env["PATH"];
  process.env["PATH"] = `${path.join(place.dir, "bin")}:${before}`;
  try {
    const result = await begin(place.dir, source).build.result;
    assert.ok(result.ok);
  } finally {
    process.env["PATH"] = before;
  }
  assert.match(await readFile(notes, "utf8"), /^-f \S+\/source 0\n$/);
});

test("flushes each file when sync(1) fails, and still moves the directory", async () => {
  await using place = await scratch();
  const notes = await syncThatNotes(place.dir, place.dir, "exit 1");
  const [from, to] = [path.join(place.dir, "from"), path.join(place.dir, "to")];
  await writeFiles(from, { "a/b": "x", c: "y" });
  await symlink("nowhere", path.join(from, "a/broken-link"));
  await writeFile(path.join(from, "secret"), "", { mode: 0o400 });
  const context = { env: { PATH: `${path.join(place.dir, "bin")}:${process.env["PATH"]}` } };
  const { signal } = new AbortController();
  await moveWhole(from, to, { ...context, signal });
  assert.match(await readFile(notes, "utf8"), /^-f /);
  assert.equal(await readFile(path.join(to, "a/b"), "utf8"), "x");
  await assert.rejects(stat(from));

  await writeFiles(from, { d: "" });
  await assert.rejects(moveWhole(from, to, { ...context, signal }), { code: "ENOTEMPTY" });
  await assert.rejects(moveWhole(from, to, { ...context, signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.equal(await readFile(path.join(from, "d"), "utf8"), "");
});
