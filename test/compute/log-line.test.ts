import assert from "node:assert/strict";
import { test } from "node:test";
import { readLogLine } from "../../src/compute/log-line.ts";

const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

test("a record is read field by field, and one that nests more than 100 levels deep is shown as it is written", () => {
  const record = (depth: number) => `{"level":"warn","message":"retry","tries":${nested(depth)}}`;
  assert.deepEqual(readLogLine(record(50)), { level: "WARNING", message: `retry tries=${nested(50)}` });
  assert.equal(readLogLine(record(101)).message, record(101));
});

test("a level that is no text and no number counts as none, because lists take long to write", () => {
  for (const level of [nested(50), '{"a":1}', "true", "null"]) {
    assert.deepEqual(readLogLine(`{"level":${level},"message":"started"}`), { level: "INFO", message: "started" });
  }
  assert.equal(readLogLine('{"level":["error"],"message":"started"}').level, "INFO");
  assert.equal(readLogLine('{"level":50,"message":"started"}').level, "ERROR");
});
