import assert from "node:assert/strict";
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { identify, isRunning, type ProcessIdentity } from "../../src/compute/process/system/processes.ts";
import { RegistryProcess } from "../../src/registry/registry-process.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { processesWith } from "../builds/fixtures.ts";
import { eventually } from "../support/eventually.ts";

const logger = createLogger("silent");

/** Fake registry: answers every request. Its garbage collection hangs if a file `hang` is beside its configuration. */
const standIn = `#!${process.execPath}
const [, , verb, file] = process.argv;
const { appendFileSync, existsSync, readFileSync } = require("node:fs");
const { http, storage } = JSON.parse(readFileSync(file, "utf8"));
const beside = (name) => require("node:path").join(require("node:path").dirname(file), name);
appendFileSync(beside("calls"), JSON.stringify({ verb, pid: process.pid, root: storage.filesystem.rootdirectory }) + "\\n");
if (verb === "serve") {
  require("node:fs").rmSync(http.addr, { force: true });
  require("node:http").createServer((_, response) => response.end("{}")).listen(http.addr);
} else if (existsSync(beside("hang"))) setInterval(() => {}, 1_000);
`;

interface Call {
  verb: string;
  pid: number;
  root: string;
}

async function setUp(context: TestContext) {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-registry-"));
  const program = path.join(directory, "registry");
  await writeFile(program, standIn);
  await chmod(program, 0o755);
  const opened: RegistryProcess[] = [];
  context.after(async () => {
    for (const { pid } of await calls(directory)) kill(pid);
    await Promise.all(opened.map((own) => own.stop()));
    await rm(directory, { recursive: true, force: true });
  });
  const open = (more: { directory?: string; collectTimeoutMs?: number } = {}) => {
    const own = new RegistryProcess({ directory, program, logger, ...more });
    opened.push(own);
    return own;
  };
  return { directory, open };
}

async function calls(directory: string): Promise<Call[]> {
  const text = await readFile(path.join(directory, "calls"), "utf8").catch(() => "");
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Call]));
}

const collecting = (directory: string) =>
  eventually(
    async () => (await calls(directory)).find(({ verb }) => verb === "garbage-collect"),
    (call) => call !== undefined,
    { timeoutMs: 20_000, what: "garbage collection" },
  ).then((call) => (call as Call).pid);

const isThere = (pid: number) => identify(pid) !== undefined;

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has already exited.
  }
}

const beginCollecting = (own: RegistryProcess) => own.whilePaused(() => own.collectGarbage());

test("starts the registry when the file that names its process is damaged", async (context) => {
  const { directory, open } = await setUp(context);
  for (const left of ["", '{"pid":1', "null", "\0\0\0\0"]) {
    await writeFile(path.join(directory, "process.json"), left);
    const own = open();
    assert.ok((await own.socket()) !== "", JSON.stringify(left));
    await own.stop();
  }
});

test("stops a registry that a killed server left running", async (context) => {
  const { directory, open } = await setUp(context);
  await open().socket();
  const left = JSON.parse(await readFile(path.join(directory, "process.json"), "utf8")) as ProcessIdentity;
  await open().socket();
  assert.equal(isRunning(left), false);
});

test("stops a registry whose process could not be recorded", async (context) => {
  const { directory, open } = await setUp(context);
  await mkdir(path.join(directory, "process.json.draft"));
  await assert.rejects(open().socket(), /the image registry does not start: EISDIR/);
  await eventually(
    () => processesWith(directory),
    ({ length }) => length === 0,
    { what: "the exit of all processes" },
  );
});

test("starts no second registry when the process of the first one cannot be read", async (context) => {
  const { directory, open } = await setUp(context);
  await mkdir(path.join(directory, "process.json"));
  await assert.rejects(open().socket(), /the image registry does not start: EISDIR/);
});

test("kills a garbage collection that hangs, so that pushes and pulls continue", async (context) => {
  const { directory, open } = await setUp(context);
  await writeFile(path.join(directory, "hang"), "");
  const own = open({ collectTimeoutMs: 2_000 });
  await own.socket();
  const collected = beginCollecting(own);
  const pid = await collecting(directory);
  assert.ok((await own.socket()) !== "");
  await collected;
  assert.equal(isThere(pid), false);
});

test("a stopping server does not wait for a garbage collection", async (context) => {
  const { directory, open } = await setUp(context);
  await writeFile(path.join(directory, "hang"), "");
  const own = open({ collectTimeoutMs: 60_000 });
  await own.socket();
  const stopping = new AbortController();
  const collected = own.whilePaused(() => own.collectGarbage(stopping.signal));
  const pid = await collecting(directory);
  const began = performance.now();
  stopping.abort();
  await own.stop();
  await collected;
  assert.ok(performance.now() - began < 20_000);
  assert.equal(isThere(pid), false);
});

test("stops a garbage collection that a killed server left running", async (context) => {
  const { directory, open } = await setUp(context);
  await writeFile(path.join(directory, "hang"), "");
  const killed = open();
  await killed.socket();
  void beginCollecting(killed);
  const pid = await collecting(directory);
  await eventually(
    () => readFile(path.join(directory, "process.json"), "utf8").catch(() => ""),
    (text) => text.includes(`"pid":${pid},`),
    { what: "its recorded identity" },
  );
  await open().socket();
  assert.equal(isThere(pid), false);
});

test("collects garbage in its own directory after the directory was copied or its configuration damaged", async (context) => {
  const { directory, open } = await setUp(context);
  const own = open();
  await own.socket();
  await own.stop();
  const copy = path.join(directory, "copy");
  await mkdir(copy);
  await cp(path.join(directory, "config.json"), path.join(copy, "config.json"));
  const other = open({ directory: copy });
  await beginCollecting(other);
  await writeFile(path.join(copy, "config.json"), '{"version":');
  await beginCollecting(other);
  assert.deepEqual(
    (await calls(copy)).map(({ verb, root }) => [verb, root]),
    Array(2).fill(["garbage-collect", other.blobsDir]),
  );
});
