import assert from "node:assert/strict";
import { test } from "node:test";
import { UploadPace } from "../../src/api/uploads/upload-pace.ts";

const mib = 1024 * 1024;

test("pauses an upload above its workspace's pace until its sender disconnects, and no upload of another workspace", async () => {
  const pace = new UploadPace();
  const sender = new AbortController();
  const ended: string[] = [];
  const send = (tenantId: string, name: string, bytes: number) =>
    pace.wait(tenantId, bytes, sender.signal).then(() => void ended.push(name));
  await send("a", "small", 8 * mib);
  const large = send("a", "large", 20_000 * mib);
  await send("b", "of another workspace", 8 * mib);
  assert.deepEqual(ended, ["small", "of another workspace"]);
  sender.abort();
  await large;
  assert.deepEqual(ended, ["small", "of another workspace", "large"]);
});
