import assert from "node:assert/strict";
import path from "node:path";
import { after, test } from "node:test";
import { execa } from "execa";
import { fetchSmallFiles } from "../../src/integrations/git-small-files.ts";
import { listFiles } from "../../src/integrations/git-tree.ts";
import { begin, gitRepository, gitSource, scratch } from "../builds/fixtures.ts";
import { gzippedTar, type RawEntry } from "../builds/tar-fixture.ts";
import { startTestServer } from "../support/server.ts";

const pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
after(() => pierhead[Symbol.asyncDispose]());

const detect = async (entries: RawEntry[]) => {
  const answer = await fetch(`${pierhead.url}/v2/detections/archive`, {
    method: "POST",
    headers: { "x-api-key": pierhead.apiKey, "content-type": "application/gzip" },
    body: new Uint8Array(gzippedTar(entries)),
  });
  return { status: answer.status, text: await answer.text() };
};

test("an archive must not create more directories than it may have entries", async () => {
  const paths = Array.from({ length: 2_000 }, (_, at) => `d${at}/${"e/".repeat(20)}f`);
  const { status, text } = await detect(paths.map((name) => ({ name, content: "" })));
  assert.equal(status, 400, text);
  assert.match(text, /it has more than 20000 files and directories/);
});

test("an archive must not nest directories without end", async () => {
  const { status, text } = await detect([{ name: `${"d/".repeat(49)}f` }, { name: `${"a/".repeat(49)}f` }]);
  assert.equal(status, 200, text);
  const deep: RawEntry[] = [
    { name: "PaxHeader", type: "x", content: record(`path=${"d/".repeat(150)}f`) },
    { name: "f", content: "" },
  ];
  const refused = await detect(deep);
  assert.equal(refused.status, 400, refused.text);
  assert.match(refused.text, /is more than 100 directories deep/);
});

test("empty files and directories must not take all inodes of the build host", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const names = Array.from({ length: 3_000 }, (_, at) => [`d${at}/empty`, ""]);
  const pierheadJson = JSON.stringify({ start: ["node", "server.js"], build: [] });
  const commit = await repository.commit({ "pierhead.json": pierheadJson, ...Object.fromEntries(names) });
  const mib = 1024 * 1024;
  const { build } = begin(place.dir, gitSource(repository, commit), { diskBytesMax: 16 * mib });
  const result = await build.result;
  assert.deepEqual([result.ok, !result.ok && result.reason], [false, "DiskFull"], JSON.stringify(result));
});

test("a commit of a few kilobytes must not expand to millions of files", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  await repository.commit({ a: "" });
  const tree = async (entries: string[]) =>
    (await execa("git", ["-C", repository.dir, "mktree"], { input: `${entries.join("\n")}\n` })).stdout;
  const ten = (entry: string) => Array.from({ length: 10 }, (_, at) => `${entry}\t${at}`);
  let top = await tree(ten(`100644 blob ${await repository.git("rev-parse", "HEAD:a")}`));
  for (let depth = 0; depth < 6; depth += 1) top = await tree(ten(`040000 tree ${top}`));
  const commit = await repository.git("commit-tree", "-m", "ten million files", top);
  await repository.git("update-ref", "refs/heads/main", commit);
  const { build } = begin(place.dir, gitSource(repository, commit));
  const result = await build.result;
  assert.deepEqual([result.ok, !result.ok && result.reason], [false, "FetchFailed"], JSON.stringify(result));
  assert.match(result.ok ? "" : result.message, /more than 1000000 files/);
});

test("a commit with short names must not make the server list a million of them at once", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  await repository.commit({ a: "" });
  const tree = async (entry: string) => {
    const names = Array.from("abcdefghijklmnopqrstuvwxyz0123");
    const input = names.map((name) => `${entry}\t${name}\n`).join("");
    return (await execa("git", ["-C", repository.dir, "mktree"], { input })).stdout;
  };
  let top = await tree(`100644 blob ${await repository.git("rev-parse", "HEAD:a")}`);
  for (let depth = 0; depth < 3; depth += 1) top = await tree(`040000 tree ${top}`);
  const commitSha = await repository.git("commit-tree", "-m", "short names", top);
  await repository.git("update-ref", "refs/heads/main", commitSha);
  const remote = { repoUrl: repository.dir, credential: null, allowLocal: true, allowPrivateNetwork: true };
  const asked = { ...remote, commitSha, timeoutMs: 60_000, signal: AbortSignal.timeout(60_000) };
  await assert.rejects(listFiles(asked), { reason: "TooLarge", message: /more than 300000 paths/ });
  const limits = { fileBytesMax: 1_000, filesMax: 10, depthMax: 6, packBytesMax: 1_000_000 };
  const directory = path.join(place.dir, "small");
  await assert.rejects(fetchSmallFiles({ ...asked, directory, limits }), { reason: "TooLarge" });
});

test("a commit must not make git keep more attributes than files have", async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  await repository.commit({ ".gitattributes": "a b\n".repeat(100_000), f: "" });
  const line = (mode: string, id: string, name: string) => `${mode} ${id}\t${name}\n`;
  const attributes = line("100644 blob", await repository.git("rev-parse", "HEAD:.gitattributes"), ".gitattributes");
  let top = await repository.git("rev-parse", "HEAD^{tree}");
  for (let depth = 0; depth < 30; depth += 1) {
    const input = attributes + line("040000 tree", top, "a");
    top = (await execa("git", ["-C", repository.dir, "mktree"], { input })).stdout;
  }
  const commit = await repository.git("commit-tree", "-m", "attributes above attributes", top);
  await repository.git("update-ref", "refs/heads/main", commit);
  const { build } = begin(place.dir, gitSource(repository, commit));
  const result = await build.result;
  assert.deepEqual([result.ok, !result.ok && result.reason], [false, "FetchFailed"], JSON.stringify(result));
  assert.match(
    result.ok ? "" : result.message,
    /The \.gitattributes files of the commit are larger than 8 MiB together/,
  );
});

/** Returns a PAX record with its length. */
function record(text: string): string {
  let length = text.length + 2;
  while (String(length).length + text.length + 2 !== length) length = String(length).length + text.length + 2;
  return `${length} ${text}\n`;
}
