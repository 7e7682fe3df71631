import assert from "node:assert/strict";
import { test } from "node:test";
import { boundedChanges, boundedSecretChanges, changesBetween, secretChangesBetween } from "../../src/domain/audit.ts";

test("lists only the changed fields, each with its value before and after", () => {
  const before = { name: "a", spec: { cpu: 1, labels: { team: "x" } }, kept: [1], gone: 1 };
  const after = { name: "b", spec: { cpu: 2, labels: { team: "x" } }, kept: [1], added: null };
  assert.deepEqual(changesBetween(before, after), {
    name: { before: "a", after: "b" },
    "spec.cpu": { before: 1, after: 2 },
    gone: { before: 1, after: null },
  });
});

test("masks values of container environment variables at any depth", () => {
  const after = { spec: { sidecars: [{ name: "proxy", env: [{ name: "TOKEN", value: "sk-hidden" }] }] } };
  const changes = changesBetween({ spec: null }, after);
  assert.ok(!JSON.stringify(changes).includes("sk-hidden"));
  assert.match(JSON.stringify(changes), /TOKEN/);
});

test("lists secrets by name only", () => {
  const changes = secretChangesBetween({ A: "1", B: "2", C: "3" }, { D: "4", B: "2", C: "5" });
  assert.deepEqual(changes, { added: ["D"], removed: ["A"], changed: ["C"] });
});

test("handles names that equal built-in object properties", () => {
  assert.deepEqual(secretChangesBetween({}, { constructor: "a" }), {
    added: ["constructor"],
    removed: [],
    changed: [],
  });
  assert.deepEqual(secretChangesBetween({ toString: "a" }, {}), { added: [], removed: ["toString"], changed: [] });
  assert.deepEqual(changesBetween({ labels: {} }, { labels: { constructor: "a" } }), {
    "labels.constructor": { before: null, after: "a" },
  });
});

test("long values and many names are cut, so that a row stays small", () => {
  const before = { a: "x".repeat(200_000), spec: {}, short: 1 };
  const spec = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`label-${at}`, "y".repeat(20)]));
  const changes = boundedChanges(changesBetween(before, { a: "z".repeat(200_000), spec, short: 2 }));
  assert.match(String(changes["a"]?.after), /^"z{2047}… \(200002 characters\)$/);
  assert.match(String(changes["…"]?.after), /^… and \d{4} more$/);
  assert.ok(JSON.stringify(changes).length < 20_000);
  const names = Object.fromEntries(Array.from({ length: 4_096 }, (_, at) => [`NAME_${at}_${"N".repeat(200)}`, "v"]));
  const secrets = boundedSecretChanges(secretChangesBetween(names, { KEPT: "v" }));
  assert.match(secrets.removed.at(-1) ?? "", /^… and \d{4} more$/);
  assert.ok(JSON.stringify(secrets).length < 20_000);
  const few = secretChangesBetween({ A: "1" }, { B: "2" });
  assert.deepEqual(boundedSecretChanges(few), few);
});
