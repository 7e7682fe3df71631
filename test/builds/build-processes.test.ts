import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { readdir, stat } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { startedAtTicks } from "../../src/builds/worker/processes.ts";
import { killBuild, workDirOf } from "../../src/builds/worker/start-build.ts";
import { eventually } from "../support/eventually.ts";
import { begin, filesSource, processesWith, scratch } from "./fixtures.ts";

const isLinux = process.platform === "linux" || "needs /proc";

/**
 * A build that hangs and hides its processes: children in other sessions and process groups, an orphan of an orphan, and one
 * that ignores SIGTERM. The command lines of all contain `mark`.
 */
const hanging = (mark: string) => ({
  "pierhead.json": JSON.stringify({ build: ["node", "hang.js", mark], start: ["node"] }),
  "hang.js": `
    const { spawn } = require("node:child_process");
    const mark = process.argv[2];
    const wait = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)";
    const start = (program, ...args) => spawn(program, args, { stdio: "ignore", detached: true }).unref();
    start("node", "-e", wait, mark, "own-session");
    start("setsid", "--fork", "node", "-e", wait, mark, "orphan");
    start("sh", "-c", "setsid node -e \\"" + wait + "\\" " + mark + " orphan-of-orphan & exit 0");
    spawn("env", ["-i", process.execPath, "-e", wait, mark, "without-environment"], { stdio: "ignore" });
    spawn("node", ["-e", wait, mark, "child"], { stdio: "inherit" });
    console.log("waiting for nothing");
    setInterval(() => {}, 1000);`,
});

/** hang.js itself and its five children. */
const hangingProcesses = 6;

async function beginHanging(dir: string, changes: object = {}) {
  const mark = `mark-${process.pid}-${Math.round(Math.random() * 1e9)}`;
  const source = await filesSource(path.join(dir, "in"), hanging(mark));
  const running = begin(dir, source, changes);
  await eventually(
    () => processesWith(mark),
    (pids) => pids.length >= hangingProcesses,
  );
  return { ...running, mark };
}

test("ends a cancelled build as Cancelled and leaves no process and no file", {
  skip: isLinux !== true && isLinux,
}, async () => {
  await using place = await scratch();
  const { build, mark } = await beginHanging(place.dir);
  await build.cancel();
  assert.deepEqual(await processesWith(mark), []);
  assert.equal(startedAtTicks(build.pid), null);
  assert.deepEqual(await build.result, { ok: false, reason: "Cancelled", message: "The build was cancelled." });
  assert.deepEqual(await readdir(path.join(place.dir, "builds")), []);
  await build.cancel();
});

test("ends a build that hangs as Timeout, quotes its last lines and leaves nothing behind", {
  skip: isLinux !== true && isLinux,
}, async () => {
  await using place = await scratch();
  const { build, mark, lines } = await beginHanging(place.dir, { timeoutMs: 20_000 });
  const result = await build.result;
  assert.equal(!result.ok && result.reason, "Timeout");
  assert.match(
    result.ok ? "" : result.message,
    /did not end within 20 s .* It was at: Step 4\/6: Build\. Last lines:\nwaiting for nothing$/,
  );
  assert.match(lines.at(-1)?.message ?? "", /^Timeout: /);
  assert.deepEqual(await processesWith(mark), []);
});

test("kills a build and its descendants when the process that started it dies", {
  skip: isLinux !== true && isLinux,
}, async () => {
  await using place = await scratch();
  const mark = `mark-${process.pid}-parent`;
  const source = await filesSource(path.join(place.dir, "in"), hanging(mark));
  const parent = fork(path.join(import.meta.dirname, "build-parent.ts"), [place.dir, JSON.stringify(source)], {
    stdio: "inherit",
  });
  const [{ pid }] = (await once(parent, "message")) as [{ pid: number }];
  await eventually(
    () => processesWith(mark),
    (pids) => pids.length >= hangingProcesses,
  );
  parent.kill("SIGKILL");
  await eventually(
    () => processesWith(mark),
    (pids) => pids.length === 0,
  );
  await eventually(
    () => startedAtTicks(pid),
    (ticks) => ticks === null,
  );
  await eventually(
    () => readdir(path.join(place.dir, "builds")),
    (names) => names.length === 0,
  );
});

test("kills the build of an earlier server, but not another process with its pid", {
  skip: isLinux !== true && isLinux,
}, async () => {
  await using place = await scratch();
  const { build, buildId, mark } = await beginHanging(place.dir);
  await killBuild({ pid: process.pid, startedAtTicks: "1", buildId: "some-other-build" });
  assert.ok((await processesWith(mark)).length >= hangingProcesses);
  await killBuild({ pid: build.pid, startedAtTicks: build.startedAtTicks, buildId });
  assert.deepEqual(await processesWith(mark), []);
  const result = await build.result;
  assert.equal(!result.ok && result.reason, "BuilderFailed");
});

test("kills only its own processes when another server on the same machine takes over the build", {
  skip: isLinux !== true && isLinux,
}, async () => {
  await using place = await scratch();
  const stoodStill = await beginHanging(place.dir);
  const took = await beginHanging(place.dir, {
    buildId: stoodStill.buildId,
    workDir: workDirOf(path.join(place.dir, "builds"), stoodStill.buildId),
  });
  await stoodStill.build.cancel();
  assert.deepEqual(await processesWith(stoodStill.mark), []);
  assert.ok((await processesWith(took.mark)).length >= hangingProcesses);
  const [left, ...others] = await readdir(path.join(place.dir, "builds"));
  assert.deepEqual(others, []);
  assert.ok((await readdir(path.join(place.dir, "builds", left ?? ""))).includes("source"));
  await took.build.cancel();
  assert.deepEqual(await processesWith(took.mark), []);
});

test("reports a killed worker and kills the processes it started", {
  skip: isLinux !== true && isLinux,
}, async () => {
  await using place = await scratch();
  const { build, mark } = await beginHanging(place.dir);
  process.kill(build.pid, "SIGKILL");
  const result = await build.result;
  assert.match(result.ok ? "" : result.message, /ended unexpectedly \(signal SIGKILL\)/);
  assert.deepEqual(await processesWith(mark), []);
  await assert.rejects(stat(path.join(place.dir, "builds", "source")));
});

test("kills processes that a successful build leaves running", { skip: isLinux !== true && isLinux }, async () => {
  await using place = await scratch();
  const mark = `mark-${process.pid}-left`;
  const leave = `require("node:child_process").spawn("setsid", ["--fork", "node", "-e", "setInterval(() => {}, 1000)", "${mark}"], { stdio: "inherit" })`;
  const source = await filesSource(path.join(place.dir, "in"), {
    "pierhead.json": JSON.stringify({ build: ["node", "leave.js"], start: ["node"] }),
    "leave.js": leave,
  });
  const { build, log } = begin(place.dir, source);
  assert.ok((await build.result).ok, log());
  assert.deepEqual(await processesWith(mark), []);
});

test("cancels a fetch from a host that does not answer", { skip: isLinux !== true && isLinux }, async () => {
  await using place = await scratch();
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  try {
    const repoUrl = `http://user:hidden-word@127.0.0.1:${(silent.address() as AddressInfo).port}/x.git`;
    const refused = begin(place.dir, { ...remote, repoUrl });
    assert.equal((await refused.build.result).ok, false);
    assert.doesNotMatch(refused.log(), /hidden-word/);
    const url = repoUrl.replace("user:hidden-word@", "");
    const { build } = begin(place.dir, { ...remote, repoUrl: url });
    await eventually(
      () => processesWith(url),
      (pids) => pids.length > 0,
    );
    await build.cancel();
    assert.deepEqual(await processesWith(url), []);
  } finally {
    silent.close();
  }
});

const remote = {
  kind: "git" as const,
  commitSha: "a".repeat(40),
  credential: null,
  allowLocal: false,
  allowPrivateNetwork: true,
};

test("cancels when aborted before the first step and ignores an abort after the end", async () => {
  await using place = await scratch();
  const source = await filesSource(path.join(place.dir, "in"), {
    "pierhead.json": JSON.stringify({ start: ["node"] }),
  });
  const early = begin(place.dir, source);
  await early.build.cancel();
  assert.equal((await early.build.result).ok, false);
  const late = begin(place.dir, source);
  const result = await late.build.result;
  await late.build.cancel();
  assert.ok(result.ok);
});
