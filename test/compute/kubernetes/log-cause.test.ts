import assert from "node:assert/strict";
import { test } from "node:test";
import { causeWithLog } from "../../../src/compute/kubernetes/watch/log-cause.ts";

const exited = {
  ...{ reason: "Exited", message: "The container 'api-server' keeps exiting with exit code 1." },
  ...{ exit_code: 1, signal: null, last_lines: [] },
};

test("finds the missing variable of a crashed container at the end of its log", () => {
  const lines = ["starting", "Error: MODEL_KEY is not set"];
  const cause = causeWithLog(exited, lines);
  assert.deepEqual([cause.variables, cause.last_lines], [["MODEL_KEY"], lines]);
  assert.match(
    cause.message,
    /exit code 1\. MODEL_KEY is not set\. Set it with: pierhead env set DEPLOYMENT MODEL_KEY/,
  );
});

test("leaves the message unchanged if the log adds nothing to it", () => {
  assert.equal(causeWithLog(exited, ["listening"]).message, exited.message);
  const withMessage = { ...exited, message: `${exited.message} Error: lost the model` };
  assert.equal(causeWithLog(withMessage, ["Error: lost the model"]).message, withMessage.message);
  const memory = { ...exited, reason: "OutOfMemory" };
  assert.equal(causeWithLog(memory, ["Error: MODEL_KEY is not set"]).variables, undefined);
});

test("shows the end of the log, and no exception of an earlier request, when a container ran out of memory", () => {
  const request = [
    "Traceback (most recent call last):",
    '  File "/srv/agent.py", line 4, in answer',
    "ValueError: no such order",
  ];
  const lines = [...request, "", "loading the model"];
  assert.deepEqual(causeWithLog({ ...exited, reason: "OutOfMemory" }, lines).last_lines, lines);
  assert.deepEqual(causeWithLog(exited, lines).last_lines, request);
});
