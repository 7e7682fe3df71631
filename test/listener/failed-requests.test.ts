import assert from "node:assert/strict";
import { test } from "node:test";
import type { FailedRequest } from "../../src/gateway/route.ts";
import { FailedRequestLines } from "../../src/listener/shipping/failed-requests.ts";

const failed: FailedRequest = {
  ...{ deploymentId: "one", revisionId: "r", replicaId: null, requestId: "id-1" },
  ...{ method: "POST", path: "/runs?key=secret", status: 503, end: "refused", durationMs: 12.4 },
};

test("the line about a failed request names its status and id, and leaves out the query", () => {
  const line = new FailedRequestLines().lineOf(failed, 0);
  assert.equal(line?.message, "Pierhead answered POST /runs with 503 after 12 ms, x-request-id id-1");
  assert.equal(line?.subject.replicaId, "gateway");
});

test("a deployment that fails each request gets some lines, and the others keep theirs", () => {
  const lines = new FailedRequestLines();
  const taken = Array.from({ length: 1_000 }, () => lines.lineOf(failed, 0)).filter((line) => line !== null);
  // Ten more come each second.
  assert.ok(taken.length >= 50 && taken.length < 200, `${taken.length} lines`);
  assert.equal(new Set(taken.map(({ key }) => key)).size, taken.length, "each line has a key of its own");
  assert.ok(lines.lineOf({ ...failed, deploymentId: "another" }, 0));
});
