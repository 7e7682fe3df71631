import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { test } from "node:test";
import { createLogger } from "../../src/telemetry/log.ts";

const logModule = new URL("../../src/telemetry/log.ts", import.meta.url).href;

/** A program that does this with a logger. */
function run(act: string, stderr: "pipe" | number = "pipe") {
  const program = `import { createLogger } from ${JSON.stringify(logModule)}; const logger = createLogger("info"); ${act}`;
  const args = ["--input-type=module", "--eval", program];
  return spawnSync(process.execPath, args, { encoding: "utf8", stdio: ["ignore", "pipe", stderr] });
}

/** Messages on stderr of such a program. */
function messagesOf(act: string): string[] {
  return run(act)
    .stderr.split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line).message);
}

test("no line is lost when the process ends in the turn in which it was written", () => {
  assert.deepEqual(messagesOf(`logger.info("one"); logger.info("two"); process.exit(1)`), ["one", "two"]);
  assert.deepEqual(messagesOf(`logger.info("one"); throw new Error("unexpected")`), ["one"]);
});

test("a program whose log is on a full disk goes on", { skip: !existsSync("/dev/full") && "no /dev/full" }, () => {
  const act = `
    logger.warn("nobody takes it");
    logger.info("nor that");
    setTimeout(() => {
      for (let line = 0; line < 20_000; line += 1) logger.warn("x".repeat(1_000));
      console.log(process.memoryUsage().rss);
    }, 100)`;
  const full = openSync("/dev/full", "w");
  try {
    const { status, stdout } = run(act, full);
    assert.equal(status, 0);
    assert.ok(Number(stdout) < 200 * 1024 * 1024, `what could not be written is kept: ${stdout}`);
  } finally {
    closeSync(full);
  }
});

test("a warning is out before anything else happens, with all before it", () => {
  const kill = `process.kill(process.pid, "SIGKILL")`;
  assert.deepEqual(messagesOf(`logger.info("one"); logger.warn("two"); ${kill}`), ["one", "two"]);
});

test("a line is one JSON object with its level, its time and its fields, and covers secrets within objects", () => {
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
