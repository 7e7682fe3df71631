import assert from "node:assert/strict";
import { test } from "node:test";
import type { LiveObject } from "../../../src/compute/kubernetes/api/manifest.ts";
import { WrittenObjects } from "../../../src/compute/kubernetes/apply/drift.ts";

test("an object that we created again does not count as deleted by another client", () => {
  const written = new WrittenObjects();
  written.record(objectOf("second"));
  assert.equal(written.isDrift("DELETED", objectOf("first")), false);
  assert.equal(written.isDrift("DELETED", objectOf("second")), true);
});

function objectOf(uid: string): LiveObject {
  const metadata = { name: "agent-postgres", namespace: "agents", uid, resourceVersion: "1", creationTimestamp: "" };
  return { apiVersion: "apps/v1", kind: "StatefulSet", metadata };
}
