import assert from "node:assert/strict";
import { test } from "node:test";
import { isSameHash, mintApiKey, readKey } from "../../src/auth/api-key.ts";
import { Memo } from "../../src/auth/memo.ts";

test("a generated key has 256 random bits and a prefix that finds it", () => {
  const keys = Array.from({ length: 200 }, () => mintApiKey());
  for (const { key, prefix, hash } of keys) {
    assert.match(key, /^ph_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/);
    assert.deepEqual(readKey(key), { prefix, hash });
    assert.ok(key.startsWith(`ph_${prefix}_`));
    assert.ok(isSameHash(readKey(key).hash, hash));
    assert.ok(!isSameHash(readKey(`${key} `).hash, hash));
    assert.ok(!isSameHash(hash.subarray(1), hash));
  }
  assert.equal(new Set(keys.map(({ key }) => key)).size, 200);
});

test("a key that the operator chose is found by its digest, not by its text", () => {
  const chosen = mintApiKey("correct horse battery staple");
  assert.equal(chosen.key, "correct horse battery staple");
  assert.match(chosen.prefix, /^sha256:[0-9a-f]{16}$/);
  assert.deepEqual(readKey(chosen.key), { prefix: chosen.prefix, hash: chosen.hash });
});

test("concurrent readers share one read, and missing rows are read again", async () => {
  let reads = 0;
  const rows = new Map<string, string>();
  const read = async (key: string) => {
    reads += 1;
    return rows.get(key);
  };
  const memo = new Memo<string>({ memoryMs: 60_000, rowsMax: 2, read });
  assert.deepEqual(await Promise.all([memo.find("a"), memo.find("a")]), [undefined, undefined]);
  assert.equal(reads, 1);
  rows.set("a", "row");
  assert.equal(await memo.find("a"), "row");
  assert.equal(await memo.find("a"), "row");
  assert.equal(reads, 2);
});

test("failed reads are not cached, and the oldest row is evicted", async () => {
  let isDown = true;
  let reads = 0;
  const read = async (key: string) => {
    reads += 1;
    if (isDown) throw new Error("database is away");
    return key;
  };
  const memo = new Memo<string>({ memoryMs: 60_000, rowsMax: 2, read });
  await assert.rejects(memo.find("a"));
  isDown = false;
  for (const key of ["a", "b", "c", "b", "c"]) assert.equal(await memo.find(key), key);
  assert.equal(reads, 4);
  await memo.find("a");
  assert.equal(reads, 5);
});
