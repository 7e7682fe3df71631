import assert from "node:assert/strict";
import { link, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { ownDataFiles } from "../../src/builds/python/own-data-files.ts";
import { scratch, writeFiles } from "./fixtures.ts";

const packages = "environment/lib/python3.12/site-packages";

/** An environment whose files are linked to a cache, as uv installs them. */
async function linkedEnvironment(dir: string, files: readonly string[]): Promise<void> {
  for (const [index, file] of files.entries()) {
    await writeFiles(dir, { [`cache/${index}`]: `text of ${file}`, [`${packages}/${file}.beside`]: "" });
    await link(path.join(dir, `cache/${index}`), path.join(dir, packages, file));
  }
}

const linksOf = async (dir: string, file: string) => (await stat(path.join(dir, packages, file))).nlink;

test("copies data that uv links to its cache, because NLTK reads no file with several links", async () => {
  await using place = await scratch();
  const data = "index/core/_static/nltk_cache/corpora/stopwords/english";
  await linkedEnvironment(place.dir, ["nltk/data.py", "nvidia/libcublas.so.12", data]);
  await ownDataFiles(path.join(place.dir, "environment"));
  assert.equal(await linksOf(place.dir, data), 1);
  assert.equal(await readFile(path.join(place.dir, packages, data), "utf8"), `text of ${data}`);
  assert.equal(await linksOf(place.dir, "nltk/data.py"), 2, "code stays linked");
  assert.equal(await linksOf(place.dir, "nvidia/libcublas.so.12"), 2, "libraries take gigabytes");
});

test("leaves the links of an environment without NLTK", async () => {
  await using place = await scratch();
  await linkedEnvironment(place.dir, ["other/words.txt"]);
  await ownDataFiles(path.join(place.dir, "environment"));
  assert.equal(await linksOf(place.dir, "other/words.txt"), 2);
});
