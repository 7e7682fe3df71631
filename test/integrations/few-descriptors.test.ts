import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gitRepository, scratch } from "../builds/fixtures.ts";

const program = fileURLToPath(new URL("./few-descriptors.ts", import.meta.url));

test("keeps serving without file descriptors for another program", async () => {
  await using place = await scratch();
  const repository = await gitRepository(place.dir);
  await repository.commit({ "a.txt": "1" });
  const limited = ["-c", 'ulimit -n 200 && exec "$0" "$@"', process.execPath, program, place.dir];
  const { status, stdout, stderr } = spawnSync("sh", limited, { encoding: "utf8", timeout: 120_000 });
  assert.equal(status, 0, stderr);
  assert.equal(stdout, "still here\n");
});
