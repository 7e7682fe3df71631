import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { begin, gitRepository, gitSource, scratch } from "./fixtures.ts";

test("logs exactly the submodules and Git LFS files that a fetch of a commit omits", async () => {
  await using place = await scratch();
  const inner = await gitRepository(path.join(place.dir, "inner"));
  await inner.commit({ "a.txt": "1" });
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const start = { "pierhead.json": JSON.stringify({ start: ["node", "server.js"] }), "lib/server.js": "" };
  const plain = begin(place.dir, gitSource(repository, await repository.commit(start)), { key: "plain" });
  assert.ok((await plain.build.result).ok, plain.log());
  assert.doesNotMatch(plain.log(), /not fetched/);

  await repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.dir, "lib/the inner");
  await repository.git("config", "filter.lfs.clean", "cat");
  const commitSha = await repository.commit({ ".gitattributes": "*.bin filter=lfs", "models/one.bin": "a pointer" });
  const { build, log } = begin(place.dir, gitSource(repository, commitSha), { key: "more" });
  assert.ok((await build.result).ok, log());
  assert.match(log(), /Submodules are not fetched, their directories are empty: lib\/the inner$/m);
  assert.match(log(), /Git LFS contents are not fetched, the files are pointers: models\/one\.bin$/m);
});
