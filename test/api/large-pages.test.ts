import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonStream } from "../../src/api/http/json-stream.ts";
import { LargePages } from "../../src/api/http/large-pages.ts";

const call = { principal: { tenantId: "a" }, signal: new AbortController().signal };

/** A list of large rows, from which others delete rows while a page of it is read. */
function rowsOf(ids: string[], deleteBefore: Record<string, string[]> = {}) {
  let rows = ids.map((id) => ({ id }));
  return {
    read: async ({ limit, offset }: { limit: number; offset: number }) => rows.slice(offset, offset + limit),
    largeBytesOf: () => 100_000,
    small: () => assert.fail("all rows are large"),
    large: async (row: { id: string }) => {
      rows = rows.filter(({ id }) => !deleteBefore[row.id]?.includes(id));
      return rows.find(({ id }) => id === row.id);
    },
  };
}

async function pageOf(query: { limit: number; offset: number }, list: ReturnType<typeof rowsOf>) {
  const answer = await new LargePages().present({ ...call, query }, list);
  assert.ok(answer instanceof JsonStream);
  let text = "";
  for await (const piece of answer.pieces) text += piece;
  const { resources, offset } = JSON.parse(text) as { resources: { id: string }[]; offset: number };
  return { ids: resources.map(({ id }) => id).join(""), offset };
}

test("a page is as long as its limit, also when rows of it are deleted while it is sent", async () => {
  const ids = ["a", "b", "c", "d", "e", "f", "g"];
  assert.deepEqual(await pageOf({ limit: 3, offset: 1 }, rowsOf(ids)), { ids: "bcd", offset: 4 });
  const deleting = { c: ["c", "d"], e: ["e"] };
  assert.deepEqual(await pageOf({ limit: 3, offset: 1 }, rowsOf(ids, deleting)), { ids: "bfg", offset: 4 });
});

test("the last page ends with the last row", async () => {
  assert.deepEqual(await pageOf({ limit: 5, offset: 1 }, rowsOf(["a", "b", "c"])), { ids: "bc", offset: 3 });
  const all = { b: ["b", "c"] };
  assert.deepEqual(await pageOf({ limit: 2, offset: 1 }, rowsOf(["a", "b", "c"], all)), { ids: "", offset: 1 });
});
