import assert from "node:assert/strict";
import { test } from "node:test";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Assignment } from "../../src/contract/listeners/assignment.ts";
import { compact } from "../../src/listener/session/compact-assignments.ts";

const name = "an-agent-with-a-name-of-some-length";

/** A page as it arrives: each string is a separate copy. */
const arrived = (count: number): Assignment[] =>
  JSON.parse(
    JSON.stringify(
      Array.from({ length: count }, (_, n) => {
        const id = `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
        const run = {
          ...{ revision_id: id, secret_set_id: null, min_replicas: 1, max_replicas: 1 },
          ...{ cpu_limit_cores: 1, memory_limit_mib: 1_024, start_timeout_ms: 1, drain_timeout_ms: 1 },
          artifact: {
            kind: "image",
            digest: "registry.invalid/agent:1",
            uri: "registry.invalid/agent:1",
            health_path: "",
          },
          env: { LANGSMITH_PROJECT: name + n, LANGSMITH_DEPLOYMENT_NAME: name + n, HOSTED_LANGSERVE_REVISION_ID: id },
        };
        const serving = n % 2 === 0 ? run : { ...run, env: { OTHER: name } };
        return {
          deployment_id: id,
          slug: name + n,
          rv: n,
          generation: n,
          op: "apply",
          target: run,
          serving,
          idle_after_ms: null,
        };
      }),
    ),
  );

test("compacting changes no assignment, and shares the run of a target that is already serving", () => {
  const kept = compact(arrived(10));
  assert.deepEqual(kept, arrived(10));
  for (const { target, serving, rv } of kept) assert.equal(target === serving, rv % 2 === 0);
});

test("stores strings once that a page repeats", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const heapOf = (make: () => unknown): number => {
    collect();
    const before = getHeapStatistics().used_heap_size;
    const held = make();
    collect();
    const taken = getHeapStatistics().used_heap_size - before;
    return held === undefined ? 0 : taken;
  };
  const [whole, kept] = [heapOf(() => arrived(2_000)), heapOf(() => compact(arrived(2_000)))];
  assert.ok(kept < 0.6 * whole, `${kept} bytes of ${whole}`);
});
