import assert from "node:assert/strict";
import { test } from "node:test";
import { LogRates } from "../../src/api/listeners/log-rates.ts";
import type { ReplicaLogLine } from "../../src/contract/listeners/assignment.ts";

let written = 0;

const lines = (count: number, deploymentId = "d1"): ReplicaLogLine[] =>
  Array.from({ length: count }, () => {
    written += 1;
    return {
      ...{ deployment_id: deploymentId, revision_id: "r", replica_id: "x", key: `${written}` },
      ...{ timestamp: "2026-01-01T00:00:00Z", stream: "stdout", level: "INFO", message: `line ${written}` },
    };
  });

const isNotice = ({ message }: ReplicaLogLine) => /lines dropped/.test(message);

test("stores a burst, then the rate, and says how many lines of each deployment were dropped", () => {
  let nowMs = 0;
  const rates = new LogRates(100, () => nowMs);
  assert.equal(rates.admit("w", lines(600)).length, 500);
  assert.equal(rates.admit("w", lines(40, "d2")).length, 0);
  nowMs += 100;
  assert.equal(rates.admit("w", lines(10)).length, 0, "drops of a flood are reported once");
  nowMs += 900;
  const stored = rates.admit("w", lines(20));
  assert.deepEqual(
    stored.filter(isNotice).map(({ deployment_id, message }) => [deployment_id, message]),
    [
      ["d1", "110 lines dropped: the agents of this workspace write more than 100 lines per second."],
      ["d2", "40 lines dropped: the agents of this workspace write more than 100 lines per second."],
    ],
  );
  assert.equal(stored.length, 22);
});

test("a flood of one workspace drops no line of another", () => {
  const rates = new LogRates(100, () => 0);
  rates.admit("noisy", lines(10_000));
  assert.equal(rates.admit("quiet", lines(300)).length, 300);
});
