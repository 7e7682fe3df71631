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

/** Stands for a registry: answers everything, and collects garbage for ever where a file `hang` lies beside its configuration. */
const standIn = `#!${process.execPath}
const [, , verb, file] = process.argv;
const { appendFileSync, existsSync, readFileSync } = require("node:fs");
const { http, storage } = JSON.parse(readFileSync(file, "utf8"));
const beside = (name) => require("node:path").join(require("node:path").dirname(file), name);
appendFileSync(beside("calls"), JSON.stringify({ verb, pid: process.pid, root: storage.filesystem.rootdirectory }) + "\\n");
if (verb === "serve") {
  const [host, port] = http.addr.split(":");
  require("node:http").createServer((_, response) => response.end("{}")).listen(Number(port), host);
} else if (existsSync(beside("hang"))) setInterval(() => {}, 1_000);
`;

interface Call {
  verb: string;
  pid: number;
  root: string;
}

async function makePlace(context: TestContext) {
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
    // it has ended
  }
}

const beginCollecting = (own: RegistryProcess) => own.whilePaused(() => own.collectGarbage());

test("the registry starts, whatever is left of the file that names its process", async (context) => {
  const { directory, open } = await makePlace(context);
  for (const left of ["", '{"pid":1', "null", "\0\0\0\0"]) {
    await writeFile(path.join(directory, "process.json"), left);
    const own = open();
    assert.ok((await own.port()) > 0, JSON.stringify(left));
    await own.stop();
  }
});

test("a registry that a killed server left is ended by the next", async (context) => {
  const { directory, open } = await makePlace(context);
  await open().port();
  const left = JSON.parse(await readFile(path.join(directory, "process.json"), "utf8")) as ProcessIdentity;
  await open().port();
  assert.equal(isRunning(left), false);
});

test("a registry whose process cannot be noted does not run on without an owner", async (context) => {
  const { directory, open } = await makePlace(context);
  await mkdir(path.join(directory, "process.json.draft"));
  await assert.rejects(open().port(), /the image registry does not start: EISDIR/);
  await eventually(
    () => processesWith(directory),
    ({ length }) => length === 0,
    { what: "that all have ended" },
  );
});

test("one that may have been left, but cannot be known, is not joined by another", async (context) => {
  const { directory, open } = await makePlace(context);
  await mkdir(path.join(directory, "process.json"));
  await assert.rejects(open().port(), /the image registry does not start: EISDIR/);
});

test("a garbage collection that hangs is given up, and pushes and pulls go on", async (context) => {
  const { directory, open } = await makePlace(context);
  await writeFile(path.join(directory, "hang"), "");
  const own = open({ collectTimeoutMs: 2_000 });
  await own.port();
  const collected = beginCollecting(own);
  const pid = await collecting(directory);
  assert.ok((await own.port()) > 0);
  await collected;
  assert.equal(isThere(pid), false);
});

test("a server that stops does not wait for a garbage collection", async (context) => {
  const { directory, open } = await makePlace(context);
  await writeFile(path.join(directory, "hang"), "");
  const own = open({ collectTimeoutMs: 60_000 });
  await own.port();
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

test("a garbage collection that a killed server left deletes nothing of what is pushed to the next", async (context) => {
  const { directory, open } = await makePlace(context);
  await writeFile(path.join(directory, "hang"), "");
  const killed = open();
  await killed.port();
  void beginCollecting(killed);
  const pid = await collecting(directory);
  await eventually(
    () => readFile(path.join(directory, "process.json"), "utf8").catch(() => ""),
    (text) => text.includes(`"pid":${pid},`),
    { what: "that it is noted" },
  );
  await open().port();
  assert.equal(isThere(pid), false);
});

test("garbage is collected in the own blobs, also in a copy and with half a configuration", async (context) => {
  const { directory, open } = await makePlace(context);
  const own = open();
  await own.port();
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
