import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { describeApart } from "../../src/builds/detect/describe-apart.ts";
import { describeSource } from "../../src/builds/detect/describe-source.ts";
import { unpackArchive } from "../../src/builds/sources/archive.ts";
import { rawTar } from "../builds/tar-fixture.ts";
import { startTestServer } from "../support/server.ts";

/** Returns the processor time that the server needs to say what it would build from a source. */
async function describeMs(files: Record<string, string>): Promise<number> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  try {
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(directory, name), text);
    const before = process.cpuUsage();
    await describeSource(directory, null, "directory");
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  } finally {
    await rm(directory, { recursive: true });
  }
}

const app = { "app.py": "from fastapi import FastAPI\napp = FastAPI()\n" };

test("an environment.yml must not occupy the server that describes its source", async () => {
  await describeMs({ ...app, "environment.yml": "dependencies:\n  - fastapi\n" });
  const forms = ["]", "}", "[]\n", "a: ", "- pip:\n  - ", "@\n", "%\n", "|\n", '"a"\n', "- a: "];
  for (const name of ["environment.yml", "environment.yaml"]) {
    for (const form of forms) {
      const text = `dependencies:\n${form.repeat(Math.floor((250 * 1024) / form.length))}`;
      const spentMs = await describeMs({ ...app, [name]: text });
      assert.ok(spentMs < 500, `${name} of ${JSON.stringify(form)}: ${Math.round(spentMs)} ms`);
    }
  }
});

test("a large file of an archive must not occupy the server that describes it", async () => {
  await using pierhead = await startTestServer();
  const large = "dependencies:\n".padEnd(20 * 1024 * 1024, "]");
  const entries = Object.entries({ ...app, "environment.yml": large, "pixi.toml": large, "requirements.txt": large });
  const archive = gzipSync(rawTar(entries.map(([name, content]) => ({ name, content }))));
  const before = process.cpuUsage();
  const { found } = await pierhead.client.detectArchive(new Blob([new Uint8Array(archive)]));
  const { user, system } = process.cpuUsage(before);
  assert.match(found ?? "", /app in app\.py/);
  assert.ok((user + system) / 1_000 < 3_000, `${(user + system) / 1_000} ms`);
});

/** Without an end of a line or an equals sign, but with many beginnings of lines, as regular expressions count them. */
const slowSource = (bytes: number) => "a:\r".repeat(bytes / 3);

test("a source that takes long to describe must not occupy the server", async () => {
  await using pierhead = await startTestServer();
  const entries = [
    { name: "requirements.txt", content: "fastapi\n" },
    { name: "app.py", content: slowSource(48 * 1024) },
  ];
  const archive = gzipSync(rawTar(entries));
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const { problem } = await pierhead.client.detectArchive(new Blob([new Uint8Array(archive)]));
  delay.disable();
  assert.equal(problem?.reason, "ConfigMissing");
  assert.ok(delay.max / 1e6 < 1_000, `${delay.max / 1e6} ms`);
});

test("the description of a source ends at its deadline, and with its caller", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  try {
    await writeFile(path.join(directory, "requirements.txt"), "fastapi\n");
    await writeFile(path.join(directory, "app.py"), slowSource(250 * 1024));
    const task = { directory, archive: null, configPath: null, target: "directory" } as const;
    const never = new AbortController().signal;
    const { found, problem } = await describeApart(task, { timeoutMs: 2_000, signal: never });
    assert.equal(found, null);
    assert.match(problem?.message ?? "", /takes too long to look into/);
    const left = new AbortController();
    const described = describeApart(task, { timeoutMs: 60_000, signal: left.signal });
    left.abort(new Error("the client left"));
    await assert.rejects(described, /the client left/);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("a file above the limit of an archive is unpacked without its content", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  try {
    const file = path.join(directory, "archive");
    const entries = [
      { name: "large", content: "x".repeat(5_000) },
      { name: "small", content: "x".repeat(1_000) },
    ];
    await writeFile(file, gzipSync(rawTar(entries)));
    const limits = { bytesMax: 1_000_000, entriesMax: 10, fileBytesMax: 1_000 };
    await unpackArchive(file, directory, { limits, signal: new AbortController().signal });
    const sizes = await Promise.all(
      entries.map(({ name }) => stat(path.join(directory, name)).then(({ size }) => size)),
    );
    assert.deepEqual(sizes, [1_001, 1_000]);
    assert.match(await readFile(path.join(directory, "large"), "utf8"), /^\0+$/);
  } finally {
    await rm(directory, { recursive: true });
  }
});
