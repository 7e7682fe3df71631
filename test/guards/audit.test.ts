import assert from "node:assert/strict";
import { test } from "node:test";
import { operations } from "../../src/contract/operations.ts";
import { auditedCalls, notCalled } from "../support/audited-calls.ts";

test("every operation that changes something is in test/support/audited-calls.ts, which shows that it is audited", () => {
  const changing = Object.values(operations).filter(
    ({ verb, role }) => verb !== "GET" && (role === "deployer" || role === "admin"),
  );
  const known = [...Object.keys(auditedCalls), ...Object.keys(notCalled)];
  assert.deepEqual(changing.map(({ id }) => id).sort(), known.sort());
});
