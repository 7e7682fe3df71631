import assert from "node:assert/strict";
import { test } from "node:test";
import { RunCountReader } from "../../src/listener/shipping/run-counts.ts";

const counts = { pending: 3, running: 1, failed: 0, recovered: 0 };

test("agents that never answer do not keep the runs of others from being counted in every round", async () => {
  let release = () => {};
  const reader = new RunCountReader((replicaId) => {
    if (!replicaId.startsWith("silent")) return Promise.resolve(counts);
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const others = release;
    release = () => {
      others();
      resolve(undefined);
    };
    return promise;
  });
  const running = ["prompt", ...Array.from({ length: 100 }, (_, at) => `silent-${at}`)].map((deploymentId) => ({
    ...{ deploymentId, replicaIds: [deploymentId], restarts: 0 },
  }));
  const round = async () => {
    const ending = new AbortController();
    const found = new Map();
    const reading = reader.readInto(found, running, ending.signal);
    // All that can answer without a wait have answered after these turns.
    for (let turn = 0; turn < 100; turn += 1) await Promise.resolve();
    ending.abort();
    release();
    await reading;
    return found;
  };
  // The first rounds find out which ones do not answer.
  for (let at = 0; at < 10; at += 1) await round();
  for (const _ of [1, 2, 3]) assert.deepEqual([...(await round())], [["prompt", counts]]);
});
