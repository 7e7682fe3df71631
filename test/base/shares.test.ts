import assert from "node:assert/strict";
import { test } from "node:test";
import { type Holder, type ShareRefusal, Shares, shareRules } from "../../src/base/shares.ts";

/** Takes one at a time until a share is refused. @returns how many were taken, and the refusal. */
function takeAll(shares: Shares, holder: Holder): { count: number; refusal: ShareRefusal } {
  for (let count = 0; ; count += 1) {
    const taken = shares.take(holder);
    if (!("release" in taken)) return { count, refusal: taken };
  }
}

test("gives a key a quarter and its workspace half of what the others leave", () => {
  const shares = new Shares(shareRules(1_000, 0.5));
  assert.deepEqual(takeAll(shares, { workspaceId: "a", keyId: "1" }), {
    count: 250,
    refusal: { limit: "key", max: 250 },
  });
  assert.equal(takeAll(shares, { workspaceId: "a", keyId: "2" }).count, 250);
  assert.deepEqual(takeAll(shares, { workspaceId: "a", keyId: "3" }), {
    count: 0,
    refusal: { limit: "workspace", max: 500 },
  });
});

test("leaves a share for the next workspace, however many workspaces use up theirs", () => {
  const shares = new Shares(shareRules(1_000, 0.5));
  const counts = ["a", "b", "c", "d", "e"].map((workspaceId) => takeAll(shares, { workspaceId }).count);
  assert.deepEqual(counts, [500, 250, 125, 62, 31]);
  assert.ok("release" in shares.take({ workspaceId: "f" }));
});

test("allows a workspace at least one of a small total, and never exceeds the total", () => {
  const shares = new Shares(shareRules(2, 0.5));
  assert.ok("release" in shares.take({ workspaceId: "a", keyId: "1" }));
  assert.ok("release" in shares.take({ workspaceId: "b", keyId: "2" }));
  assert.deepEqual(shares.take({ workspaceId: "c", keyId: "3" }), { limit: "total", max: 2 });
});

test("makes a released share available once, however often it is released", () => {
  const shares = new Shares(shareRules(8, 0.5));
  const holder = { workspaceId: "a", keyId: "1" };
  const first = shares.take(holder);
  assert.ok("release" in first);
  assert.ok("release" in shares.take(holder));
  first.release();
  first.release();
  assert.equal(shares.held, 1);
  assert.equal(takeAll(shares, holder).count, 1);
});

test("counts amounts of different sizes", () => {
  const shares = new Shares(shareRules(100, 0.5));
  assert.ok("release" in shares.take({ workspaceId: "a" }, 40));
  assert.deepEqual(shares.take({ workspaceId: "a" }, 11), { limit: "workspace", max: 50 });
  assert.ok("release" in shares.take({ workspaceId: "a" }, 10));
});
