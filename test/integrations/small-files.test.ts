import assert from "node:assert/strict";
import { stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { execa } from "execa";
import { fetchSmallFiles } from "../../src/integrations/git-small-files.ts";
import { gitRepository, scratch } from "../builds/fixtures.ts";

const limits = { fileBytesMax: 50_000, filesMax: 100, depthMax: 6, packBytesMax: 100_000 };

/** Fetches a commit of a repository in `dir` into `dir/out`. */
async function fetchFrom(dir: string, commitSha: string): Promise<string> {
  const directory = path.join(dir, "out");
  const remote = { credential: null, allowLocal: true, allowPrivateNetwork: true, timeoutMs: 60_000 };
  const { signal } = new AbortController();
  await fetchSmallFiles({ ...remote, repoUrl: path.join(dir, "in"), signal, commitSha, directory, limits });
  return directory;
}

test("writes one content under many names only as far as the limit allows, and skips names that are not text", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "in"));
  await writeFile(Buffer.concat([Buffer.from(`${repository.dir}/a`), Buffer.from([0xff])]), "odd");
  const text = "x".repeat(40_000);
  const names = ["a.py", "b.py", "c.py", "d/e.py"];
  const commit = await repository.commit(Object.fromEntries(names.map((name) => [name, text])));
  const directory = await fetchFrom(place.dir, commit);
  const sizes = await Promise.all(names.map(async (name) => (await stat(path.join(directory, name))).size));
  assert.deepEqual(sizes, [40_000, 40_000, 50_001, 50_001]);
});

test("says that a commit has too many files to look into", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "in"));
  await repository.commit({ a: "" });
  let entry = `100644 blob ${await repository.git("rev-parse", "HEAD:a")}`;
  for (let level = 0; level < 3; level++) {
    const input = Array.from({ length: 64 }, (_, at) => `${entry}\tname-${at}\n`).join("");
    const { stdout } = await execa("git", ["-C", repository.dir, "mktree"], { input });
    entry = `040000 tree ${stdout}`;
  }
  const commit = await repository.git("commit-tree", entry.split(" ").at(-1) ?? "", "-m", "many");
  await repository.git("update-ref", "refs/heads/main", commit);
  await assert.rejects(fetchFrom(place.dir, commit), { reason: "TooLarge", message: /too many files to look into/ });
});
