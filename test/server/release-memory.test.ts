import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryReleaser } from "../../src/server/tuning/release-memory.ts";
import { eventually } from "../support/eventually.ts";

const rssMb = () => process.memoryUsage.rss() / 1e6;

/** Allocates many objects and keeps a few of them. */
function burst(): { grownMb: number; kept: object[] } {
  const beforeMb = rssMb();
  const all = Array.from({ length: 2_000_000 }, (_, n) => ({ n, text: `text ${n}` }));
  return { grownMb: rssMb() - beforeMb, kept: all.slice(0, 1_000) };
}

test("returns the memory of a burst to the system when the process is idle", async () => {
  const { grownMb, kept } = burst();
  assert.ok(grownMb > 100, `${grownMb} MB`);
  const memory = new MemoryReleaser(1_000);
  try {
    const fullMb = rssMb();
    // Takes about 15 s. Without the releaser V8 did it after 105 s, because waiting also creates garbage.
    const isGivenBack = (mb: number) => mb < fullMb - 0.7 * grownMb;
    await eventually(rssMb, isGivenBack, { timeoutMs: 60_000, what: "the resident memory" });
    assert.equal(kept.length, 1_000);
  } finally {
    memory.stop();
  }
});
