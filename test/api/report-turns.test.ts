import assert from "node:assert/strict";
import { test } from "node:test";
import { ReportTurns } from "../../src/api/listeners/report-turns.ts";

/** Work that the test ends. */
function work(name: string, began: string[]) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const act = () => {
    began.push(name);
    return promise;
  };
  return { act, end: resolve, fail: reject };
}

test("reports of one listener are stored one after the other, also after a failure, and those of others meanwhile", async () => {
  const turns = new ReportTurns("own");
  const began: string[] = [];
  const [first, second, other] = ["first", "second", "other"].map((name) => work(name, began));
  assert.ok(first && second && other);
  const failed = assert.rejects(turns.take("a", first.act), /gone/);
  const next = turns.take("a", second.act);
  const beside = turns.take("b", other.act);
  other.end();
  await beside;
  assert.deepEqual(began, ["first", "other"]);
  first.fail(new Error("gone"));
  await failed;
  second.end();
  await next;
  assert.deepEqual(began, ["first", "other", "second"]);
});

test("reports of the server's own listener, which serves all workspaces, do not wait for each other", async () => {
  const turns = new ReportTurns("own");
  const began: string[] = [];
  const [first, second] = ["first", "second"].map((name) => work(name, began));
  assert.ok(first && second);
  const both = [turns.take("own", first.act), turns.take("own", second.act)];
  assert.deepEqual(began, ["first", "second"]);
  first.end();
  second.end();
  await Promise.all(both);
});
