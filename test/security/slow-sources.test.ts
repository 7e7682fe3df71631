import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { describeApart } from "../../src/builds/detect/describe-apart.ts";
import { unpackArchive } from "../../src/builds/sources/archive.ts";
import { createClient } from "../../src/client/client.ts";
import { detectionTimeoutMs } from "../../src/domain/limits.ts";
import { startApi } from "../api/harness.ts";
import { rawTar } from "../builds/tar-fixture.ts";
import { startTestServer } from "../support/server.ts";

/** Describes a source in the time of a detection. */
async function describe(files: Record<string, string>) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  try {
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(directory, name), text);
    const task = { directory, archive: null, configPath: null, target: "directory" } as const;
    return await describeApart(task, { timeoutMs: detectionTimeoutMs, signal: new AbortController().signal });
  } finally {
    await rm(directory, { recursive: true });
  }
}

const app = { "app.py": "from fastapi import FastAPI\napp = FastAPI()\n" };

const archiveOf = (files: Record<string, string>) => {
  const entries = Object.entries(files).map(([name, content]) => ({ name, content }));
  return new Blob([new Uint8Array(gzipSync(rawTar(entries)))]);
};

test("an environment.yml must not take the time that the server has to describe its source", async () => {
  const forms = ["]", "}", "[]\n", "a: ", "- pip:\n  - ", "@\n", "%\n", "|\n", '"a"\n', "- a: "];
  for (const name of ["environment.yml", "environment.yaml"]) {
    for (const form of forms) {
      const text = `dependencies:\n${form.repeat(Math.floor((250 * 1024) / form.length))}`;
      const { found, problem } = await describe({ ...app, [name]: text });
      assert.match(found ?? "", /app in app\.py/, `${name} of ${JSON.stringify(form)}: ${problem?.message}`);
    }
  }
});

test("large files of an archive must not take the time that the server has to describe it", async () => {
  await using pierhead = await startTestServer();
  const large = "dependencies:\n".padEnd(20 * 1024 * 1024, "]");
  const files = { ...app, "environment.yml": large, "pixi.toml": large, "requirements.txt": large };
  const { found, problem } = await pierhead.client.detectArchive(archiveOf(files));
  assert.match(found ?? "", /app in app\.py/, problem?.message);
});

/** Without an end of a line or an equals sign, but with many beginnings of lines, as regular expressions count them. */
const slowSource = (bytes: number) => "a:\r".repeat(bytes / 3);

test("the server answers others while it describes a source that takes long", async () => {
  const t = await startApi({ detectionTimeoutMs: 7_000 });
  const url = await t.api.listen({ host: "127.0.0.1", port: 0 });
  const client = createClient({ baseUrl: url, apiKey: t.tenant.adminKey });
  const archive = archiveOf({ "requirements.txt": "fastapi\n", "app.py": slowSource(250 * 1024) });
  let isDescribed = false;
  const description = client.detectArchive(archive).finally(() => {
    isDescribed = true;
  });
  let answered = 0;
  for (; !isDescribed; answered += 1) await client.listDeployments({});
  const { problem } = await description;
  assert.match(problem?.message ?? "", /takes too long to look into/);
  assert.ok(answered > 20, `${answered} answers in the 6 s of the description`);
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
