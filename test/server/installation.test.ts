import assert from "node:assert/strict";
import { lstat, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { installationIdOf } from "../../src/server/installation.ts";

test("keeps the installation id, even after a start that could not read it", async (context) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-installation-"));
  context.after(() => rm(dataDir, { recursive: true, force: true }));
  const made = await installationIdOf(dataDir);
  assert.equal(await installationIdOf(dataDir), made);
  const file = path.join(dataDir, "instance-id");
  await rm(file);
  // A symbolic link loop: even root cannot open it.
  await symlink(file, file);
  await assert.rejects(
    installationIdOf(dataDir),
    /cannot read the id of this installation .*: let this user read .*instance-id/,
  );
  assert.ok((await lstat(file)).isSymbolicLink(), "the file was replaced");
});
