import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryReleaser } from "../../src/server/tuning/release-memory.ts";
import { eventually } from "../support/eventually.ts";

const rssMb = () => process.memoryUsage.rss() / 1e6;

/** So many live objects, of which a few stay. */
function burst(): { grownMb: number; kept: object[] } {
  const beforeMb = rssMb();
  const all = Array.from({ length: 2_000_000 }, (_, n) => ({ n, text: `text ${n}` }));
  return { grownMb: rssMb() - beforeMb, kept: all.slice(0, 1_000) };
}

test("memory that a burst left goes back to the machine once nothing happens", async () => {
  const { grownMb, kept } = burst();
  assert.ok(grownMb > 100, `${grownMb} MB`);
  const memory = new MemoryReleaser(1_000);
  try {
    const fullMb = rssMb();
    // Some 15 s. By itself V8 did it after 105 s, as waiting makes garbage too.
    const isGivenBack = (mb: number) => mb < fullMb - 0.7 * grownMb;
    await eventually(rssMb, isGivenBack, { timeoutMs: 60_000, what: "what is left" });
    assert.equal(kept.length, 1_000);
  } finally {
    memory.stop();
  }
});
