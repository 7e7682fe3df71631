import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { test } from "node:test";
import { createLogger } from "../../src/telemetry/log.ts";

const logModule = new URL("../../src/telemetry/log.ts", import.meta.url).href;

/** A program that runs this code with a logger. */
function run(act: string, stderr: "pipe" | number = "pipe") {
  const program = `import { createLogger } from ${JSON.stringify(logModule)}; const logger = createLogger("info"); ${act}`;
  const args = ["--input-type=module", "--eval", program];
  return spawnSync(process.execPath, args, { encoding: "utf8", stdio: ["ignore", "pipe", stderr] });
}

/** Messages that such a program writes to stderr. */
function messagesOf(act: string): string[] {
  return run(act)
    .stderr.split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line).message);
}

test("no line is lost when the process ends in the same turn of the event loop", () => {
  assert.deepEqual(messagesOf(`logger.info("one"); logger.info("two"); process.exit(1)`), ["one", "two"]);
  assert.deepEqual(messagesOf(`logger.info("one"); throw new Error("unexpected")`), ["one"]);
});

test("a program keeps running when the disk of its log is full", {
  skip: !existsSync("/dev/full") && "no /dev/full",
}, () => {
  const act = `
    logger.warn("not written");
    logger.info("not written either");
    setTimeout(() => {
      for (let line = 0; line < 20_000; line += 1) logger.warn("x".repeat(1_000));
      console.log(process.memoryUsage().rss);
    }, 100)`;
  const full = openSync("/dev/full", "w");
  try {
    const { status, stdout } = run(act, full);
    assert.equal(status, 0);
    assert.ok(Number(stdout) < 200 * 1024 * 1024, `unwritten lines stay in memory: ${stdout}`);
  } finally {
    closeSync(full);
  }
});

test("a warning is written at once, with all lines before it", () => {
  const kill = `process.kill(process.pid, "SIGKILL")`;
  assert.deepEqual(messagesOf(`logger.info("one"); logger.warn("two"); ${kill}`), ["one", "two"]);
});

test("a line is one JSON object with level, time and fields, and masks secrets in objects", () => {
  const lines: string[] = [];
  const logger = createLogger("info", { write: (line) => void lines.push(line) });
  const before = new Date().toISOString();
  logger.debug("not written");
  logger.info(
    { count: 2, held: { token: "sesame", value: "sesame", name: "key" }, names: ["a"] },
    "something happened",
  );
  const [line, ...more] = lines.map((text) => JSON.parse(text));
  assert.deepEqual(more, []);
  const { time, ...rest } = line;
  assert.ok(before <= time && time <= new Date().toISOString(), time);
  const held = { token: "**********", value: "**********", name: "key" };
  assert.deepEqual(rest, { level: "info", count: 2, held, names: ["a"], message: "something happened" });
});
