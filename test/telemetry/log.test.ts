import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { createLogger } from "../../src/telemetry/log.ts";

const logModule = new URL("../../src/telemetry/log.ts", import.meta.url).href;

/** Messages on stderr of a program that does this with a logger. */
function messagesOf(act: string): string[] {
  const program = `import { createLogger } from ${JSON.stringify(logModule)}; const logger = createLogger("info"); ${act}`;
  const { stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  return stderr
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line).message);
}

test("no line is lost when the process ends in the turn in which it was written", () => {
  assert.deepEqual(messagesOf(`logger.info("one"); logger.info("two"); process.exit(1)`), ["one", "two"]);
  assert.deepEqual(messagesOf(`logger.info("one"); throw new Error("unexpected")`), ["one"]);
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
