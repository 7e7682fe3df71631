import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { removeAbandonedDirectories } from "../../src/base/temporary-directories.ts";

const temporary = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
process.env["TMPDIR"] = temporary;
after(() => rm(temporary, { recursive: true, force: true }));

test("removes old directories of its own operation, and no new ones or those of other operations", async () => {
  const make = async (prefix: string, isOld: boolean) => {
    const directory = await mkdtemp(path.join(temporary, prefix));
    if (isOld) await utimes(directory, new Date(0), new Date(0));
    return path.basename(directory);
  };
  await make("pierhead-work-", true);
  const left = [await make("pierhead-work-", false), await make("others-", true)];
  await removeAbandonedDirectories(["pierhead-work-"]);
  assert.deepEqual((await readdir(temporary)).sort(), left.sort());
});
