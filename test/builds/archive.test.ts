import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { deflateRawSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { create } from "tar";
import { directorySize } from "../../src/builds/cache/artifact.ts";
import { BuildFailure } from "../../src/builds/failure.ts";
import { unpackArchive } from "../../src/builds/sources/archive.ts";
import { scratch } from "./fixtures.ts";
import { gzippedTar, pax, type RawEntry, rawTar, writeArchive } from "./tar-fixture.ts";

const limits = { bytesMax: 5 * 1024 * 1024, entriesMax: 1_000 };

/** Unpacks into `<dir>/out` and returns the failure, or null. */
async function unpack(dir: string, bytes: Buffer): Promise<BuildFailure | null> {
  const archive = await writeArchive(path.join(dir, "source.tar.gz"), bytes);
  const out = path.join(dir, "out");
  await mkdir(out, { recursive: true });
  const { signal } = new AbortController();
  try {
    await unpackArchive(archive.path, out, { sha256: archive.sha256, limits, signal });
    return null;
  } catch (error) {
    if (error instanceof BuildFailure) return error;
    throw error;
  }
}

const file = (name: string, content = "x"): RawEntry => ({ name, content });

const megabyte = 1024 * 1024;

const hostile: Record<string, () => Buffer> = {
  "a path up": () => gzippedTar([file("../evil")]),
  "a path up in the middle": () => gzippedTar([file("a/../../evil")]),
  "a path up at the end": () => gzippedTar([{ name: "a/..", type: "5" }]),
  "two dots": () => gzippedTar([{ name: "..", type: "5" }]),
  "a path up by PAX": () => gzippedTar([pax({ path: "../evil" }), file("good")]),
  "a path up by a GNU long name": () =>
    gzippedTar([{ name: "././@LongLink", type: "L", content: "../evil\0" }, file("good")]),
  "an absolute path": () => gzippedTar([file("/etc/evil")]),
  "an absolute path by PAX": () => gzippedTar([pax({ path: "/etc/evil" }), file("good")]),
  "an absolute path of slashes": () => gzippedTar([file("///evil")]),
  "a drive": () => gzippedTar([file("C:/evil")]),
  "a backslash": () => gzippedTar([file("..\\evil")]),
  "a symbolic link": () => gzippedTar([{ name: "link", type: "2", linkName: "target" }]),
  "a symbolic link out": () => gzippedTar([{ name: "link", type: "2", linkName: "/etc" }, file("link/evil")]),
  "a symbolic link up": () => gzippedTar([{ name: "link", type: "2", linkName: "../.." }]),
  "a hard link": () => gzippedTar([file("a"), { name: "b", type: "1", linkName: "a" }]),
  "a hard link out": () => gzippedTar([{ name: "b", type: "1", linkName: "/etc/passwd" }]),
  "a character device": () => gzippedTar([{ name: "null", type: "3" }]),
  "a block device": () => gzippedTar([{ name: "disk", type: "4" }]),
  "a named pipe": () => gzippedTar([{ name: "pipe", type: "6" }]),
  "a sparse file": () => gzippedTar([{ name: "sparse", type: "S" }]),
  "an unknown type": () => gzippedTar([{ name: "what", type: "Z" }]),
  "a GNU dump directory": () => gzippedTar([{ name: "dump", type: "D" }]),
  "the same file twice": () => gzippedTar([file("a"), file("a")]),
  "the same file in another spelling": () => gzippedTar([file("a/b"), file("./a//b")]),
  "a file where a directory is": () => gzippedTar([{ name: "a/", type: "5" }, file("a")]),
  "a directory where a file is": () => gzippedTar([file("a"), { name: "a/", type: "5" }]),
  "a file below a file": () => gzippedTar([file("a"), file("a/b")]),
  "a line break in a name": () => gzippedTar([file("a\nb")]),
  "an escape in a name": () => gzippedTar([file("a\u001b[2Jb")]),
  "an empty name": () => gzippedTar([file("./")]),
  "a name that is too long": () => gzippedTar([pax({ path: "n".repeat(256) }), file("good")]),
  "a path that is too long": () => gzippedTar([pax({ path: `${"d/".repeat(600)}f` }), file("good")]),
  "too many entries": () => gzippedTar(Array.from({ length: 1_001 }, (_, at) => file(`f${at}`, ""))),
  "a hundred thousand directories": () =>
    gzippedTar(Array.from({ length: 100_000 }, (_, at) => ({ name: `d${at}/`, type: "5" }))),
  "too many bytes": () => gzippedTar([file("a", "x".repeat(3 * megabyte)), file("b", "x".repeat(3 * megabyte))]),
  "one file too large": () => gzippedTar([{ name: "a", content: Buffer.alloc(6 * megabyte) }]),
  "a size of 8 GB that is a lie": () => gzippedTar([{ name: "a", size: 8 * 1024 ** 3 - 1, content: "x" }]),
  "a bomb of zeros": () => gzippedTar([{ name: "a", content: Buffer.alloc(200 * megabyte) }]),
  "a bomb of empty blocks before any entry": () =>
    gzipSync(Buffer.concat([rawTar([file("a")], { isEnded: false }), ...bombOfHeaders()])),
  "gzip in gzip": () => gzipSync(gzippedTar([file("a")])),
  "zeros that never become an archive": () => gzipSync(Buffer.alloc(100 * megabyte)),
  "an extended header of 2 MB": () =>
    gzippedTar([{ name: "x", type: "x", content: Buffer.alloc(2 * megabyte, 65) }, file("a")]),
  "a broken checksum": () => gzippedTar([file("a"), { ...file("b"), isBroken: true }]),
  "a broken first checksum": () => gzippedTar([{ ...file("a"), isBroken: true }]),
  "truncated gzip": () => gzippedTar([file("a", "x".repeat(megabyte))]).subarray(0, 600),
  "truncated tar": () => gzipSync(rawTar([file("a", "x".repeat(10_000))]).subarray(0, 3_000)),
  "tar cut at a block": () => gzipSync(rawTar([file("a", "x".repeat(10_000))]).subarray(0, 2_048)),
  "a gzip with a wrong checksum": () => Buffer.concat([gzippedTar([file("a")]).subarray(0, -8), Buffer.alloc(8, 1)]),
  "plain tar": () => rawTar([file("a")]),
  "a zip file": () => Buffer.concat([Buffer.from("PK\x03\x04"), Buffer.alloc(100)]),
  "raw deflate": () => deflateRawSync(rawTar([file("a")])),
  text: () => Buffer.from("not an archive"),
  nothing: () => Buffer.alloc(0),
  "gzip of nothing": () => gzipSync(Buffer.alloc(0)),
  "gzip of text": () => gzipSync(Buffer.from("hello".repeat(1_000))),
  "an archive without entries": () => gzippedTar([]),
};

/** A gzip file in which every byte after the ten-byte header matters. */
const whole = gzippedTar([file("a", randomBytes(2_000).toString("hex"))]);
for (let at = 0; at < 50; at += 1) {
  const place = 10 + Math.floor((at * (whole.length - 10)) / 50);
  hostile[`a flipped bit at ${at * 2} % of it`] = () => {
    const bytes = Buffer.from(whole);
    bytes[place] = (bytes[place] ?? 0) ^ 4;
    return bytes;
  };
}

/** 50,000 extended headers without a file. */
function bombOfHeaders(): Buffer[] {
  const header = rawTar([{ name: "g", type: "g", content: "x".repeat(600) }], { isEnded: false });
  return Array.from({ length: 50_000 }, () => header);
}

for (const [name, bytes] of Object.entries(hostile)) {
  test(`rejects an archive with ${name} and writes nothing outside the directory or above the limit`, async () => {
    await using place = await scratch();
    await writeFile(path.join(place.dir, "evil"), "untouched");
    const startedAt = performance.now();
    const failure = await unpack(place.dir, bytes());
    assert.equal(failure?.reason, "ArchiveRefused", failure?.message ?? "it was accepted");
    assert.match(failure.message, /^The archive is refused: [^\n]+\.$/);
    assert.deepEqual((await readdir(place.dir)).toSorted(), ["evil", "out", "source.tar.gz"]);
    assert.equal(await readFile(path.join(place.dir, "evil"), "utf8"), "untouched");
    assert.ok((await directorySize(path.join(place.dir, "out"))) <= limits.bytesMax * 1.01);
    assert.ok(performance.now() - startedAt < 30_000);
  });
}

test("names the entry that makes it reject an archive", async () => {
  await using place = await scratch();
  const failure = await unpack(place.dir, gzippedTar([file("good"), { name: "a/link", type: "2", linkName: "x" }]));
  assert.equal(
    failure?.message,
    "The archive is refused: 'a/link' is a symbolic link; only files and directories are allowed.",
  );
});

test("unpacks an archive of the command-line clients and keeps only the executable bits", async () => {
  await using place = await scratch();
  const files = {
    "langgraph.json": "{}",
    "src/agent.ts": "export {}",
    "ünï cödé/日本.txt": "text",
    "run.sh": "#!/bin/sh\n",
  };
  const source = path.join(place.dir, "in");
  for (const [name, content] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(source, name)), { recursive: true });
    await writeFile(path.join(source, name), content, { mode: name === "run.sh" ? 0o777 : 0o666 });
  }
  const archive = path.join(place.dir, "made.tar.gz");
  await create({ gzip: true, cwd: source, file: archive }, ["."]);
  assert.equal(await unpack(place.dir, await readFile(archive)), null);
  for (const [name, content] of Object.entries(files)) {
    const written = path.join(place.dir, "out", name);
    assert.equal(await readFile(written, "utf8"), content);
    assert.equal((await stat(written)).mode & 0o7777, name === "run.sh" ? 0o755 : 0o644);
  }
});

test("drops setuid, setgid and sticky bits", async () => {
  await using place = await scratch();
  assert.equal(await unpack(place.dir, gzippedTar([{ name: "root", content: "x", mode: 0o7755 }])), null);
  assert.equal((await stat(path.join(place.dir, "out/root"))).mode & 0o7777, 0o755);
});

test("accepts repeated directories and ignores data after the end mark", async () => {
  await using place = await scratch();
  const twice = rawTar([{ name: "a/", type: "5" }, file("a/b"), { name: "a/", type: "5" }]);
  const behind = rawTar([file("../evil")]);
  assert.equal(await unpack(place.dir, gzipSync(Buffer.concat([twice, behind]))), null);
  assert.deepEqual(await readdir(path.join(place.dir, "out/a")), ["b"]);
});

test("keeps names that the format truncates or ignores inside the directory", async () => {
  for (const entries of [
    [pax({ path: "../evil" }, "g"), file("good")],
    [pax({ path: "good\0/../../evil" }), file("x")],
    [file("good\0../evil")],
  ]) {
    await using place = await scratch();
    const failure = await unpack(place.dir, gzippedTar(entries));
    assert.deepEqual((await readdir(place.dir)).toSorted(), ["out", "source.tar.gz"]);
    assert.deepEqual(await readdir(path.join(place.dir, "out")), failure === null ? ["good"] : []);
  }
});

test("rejects an archive that changed since its upload", async () => {
  await using place = await scratch();
  const archive = await writeArchive(path.join(place.dir, "a.tar.gz"), gzippedTar([file("a")]));
  const options = { sha256: "0".repeat(64), limits, signal: new AbortController().signal };
  await assert.rejects(unpackArchive(archive.path, place.dir, options), { reason: "FetchFailed" });
  await assert.rejects(unpackArchive(path.join(place.dir, "none"), place.dir, options), { reason: "FetchFailed" });
});

test("writes files only inside the directory, for generated names", async () => {
  await using place = await scratch();
  const part = fc.constantFrom("..", ".", "", "a", "b", "...", "~", "-x", "a b", "é", "con");
  const name = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join("/"));
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(name, { minLength: 1, maxLength: 4 }), async (names) => {
      const dir = path.join(place.dir, String(run++));
      await mkdir(dir);
      const failure = await unpack(dir, gzippedTar(names.map((given) => file(given))));
      assert.deepEqual((await readdir(dir)).toSorted(), ["out", "source.tar.gz"]);
      const isSafe = names.every((given) => !given.split("/").includes("..") && !given.startsWith("/"));
      if (!isSafe) assert.equal(failure?.reason, "ArchiveRefused");
    }),
    { numRuns: 200 },
  );
  assert.deepEqual((await readdir(place.dir)).length, run);
});
