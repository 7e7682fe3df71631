import assert from "node:assert/strict";
import { test } from "node:test";
import { readMessages } from "../../src/client/event-stream.ts";

/** Sends the text in pieces of `length` bytes. */
function streamOf(text: string, length: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at + length));
      at += length;
    },
  });
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test("messages are the same however the text is cut, with every kind of line end", async () => {
  const text = "id: 1\ndata: a\ndata: b\n\nevent: x\r\ndata: ä€😀\r\n\r\nid: 2\rdata: c\r\r: beat\n\nunfinished";
  const expected = [
    { type: "message", data: "a\nb", id: "1" },
    { type: "x", data: "ä€😀", id: "1" },
    { type: "message", data: "c", id: "2" },
    { type: "message", data: "", id: "2" },
  ];
  for (let length = 1; length <= text.length; length += 1) {
    assert.deepEqual(await all(readMessages(streamOf(text, length), "")), expected, `${length} bytes`);
  }
});

test("a message without an end is refused instead of filling the memory", async () => {
  const endless = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: (controller) => controller.enqueue(new Uint8Array(1 << 20).fill(97)),
  });
  await assert.rejects(all(readMessages(endless, "")), /more than 67108864 characters in one message/);
});
