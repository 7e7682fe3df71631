import assert from "node:assert/strict";
import { syncBuiltinESMExports } from "node:module";
import { type TestContext, test } from "node:test";
import { BytePace } from "../../src/base/byte-pace.ts";

const mib = 1024 * 1024;
const ofUploads = { bytesPerS: 16 * mib, burstBytes: 16 * mib };

test("pauses an upload above its workspace's pace until its sender disconnects, and no upload of another workspace", async () => {
  const pace = new BytePace(ofUploads);
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

test("lets 16 MiB of a workspace pass at once, then 16 MiB a second of all its uploads together", async (context) => {
  const clock = virtualClock(context);
  const pace = new BytePace(ofUploads);
  const never = new AbortController().signal;
  const passedAtMs: number[] = [];
  const upload = async (mibs: number) => {
    for (let sent = 0; sent < mibs; sent += 1) await pace.wait("a", mib, never);
    passedAtMs.push(clock.nowMs());
  };
  const uploads = [upload(16), upload(24), upload(24)];
  await clock.pass(5_000);
  await Promise.all(uploads);
  assert.equal(Math.max(...passedAtMs), 3_000, "64 MiB in total");
  pace.forgetIdle();
  await upload(16);
  assert.equal(passedAtMs.at(-1), 5_000, "a workspace that was idle for a second");
});

/** Replaces clock and timers of this process by ones that only the test moves. */
function virtualClock(context: TestContext) {
  let nowMs = 0;
  context.mock.method(performance, "now", () => nowMs);
  context.mock.timers.enable({ apis: ["setTimeout"] });
  syncBuiltinESMExports();
  context.after(() => {
    context.mock.reset();
    syncBuiltinESMExports();
  });
  return {
    nowMs: () => nowMs,
    async pass(ms: number) {
      for (const endMs = nowMs + ms; nowMs < endMs; ) {
        nowMs += 1;
        context.mock.timers.tick(1);
        await new Promise(setImmediate);
      }
    },
  };
}
