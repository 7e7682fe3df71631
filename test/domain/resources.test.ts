import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { DeploymentType, Size } from "../../src/contract/deployments/deployment.ts";
import type { ResourceSpec } from "../../src/contract/deployments/resource-spec.ts";
import { normalizeResourceSpec, roundToTenth } from "../../src/domain/resource-rules.ts";
import { effectiveSizes, scalesToZero, shownDeploymentType } from "../../src/domain/sizes.ts";
import { refusal } from "./fixtures.ts";

test("rounds CPU to tenths with halves to even, as existing clients expect", () => {
  const cases: [number, number][] = [
    [0.25, 0.2],
    [0.75, 0.8],
    [1.25, 1.2],
    [1.75, 1.8],
    [0.35, 0.3],
    [0.15, 0.1],
    [0.45, 0.5],
    [2, 2],
    [0.1, 0.1],
    [7.99, 8],
  ];
  for (const [given, rounded] of cases) assert.equal(roundToTenth(given), rounded, String(given));
  const { cpu, queue_cpu_limit } = normalizeResourceSpec({ cpu: 0.25, queue_cpu_limit: 1.26 });
  assert.deepEqual([cpu, queue_cpu_limit], [0.2, 1.3]);
});

test("rounding changes a value by at most half a tenth, and rounding again changes nothing", () => {
  fc.assert(
    fc.property(fc.double({ min: 0.1, max: 16, noNaN: true }), (value) => {
      const rounded = roundToTenth(value);
      assert.ok(Math.abs(rounded - value) <= 0.05 + 1e-12);
      assert.equal(roundToTenth(rounded), rounded);
    }),
  );
});

const refused: [ResourceSpec, RegExp][] = [
  [{ min_scale: -1 }, /min_scale' must be between 0 and 100/],
  [{ min_scale: 101 }, /min_scale' must be between 0 and 100/],
  [{ max_scale: 0 }, /max_scale' must be between 1 and 100/],
  [{ max_scale: 101 }, /max_scale'/],
  [{ min_scale: 3, max_scale: 2 }, /max_scale' must not be below min_scale \(3\)/],
  [{ queue_min_scale: -1 }, /queue_min_scale'/],
  [{ queue_min_scale: 2, queue_max_scale: 1 }, /queue_max_scale'/],
  [{ cpu: 2, cpu_limit: 1 }, /cpu_limit' must not be below cpu \(2\)/],
  [{ memory_limit_mb: 1024 }, /memory_limit_mb' must not be below memory_mb \(2048, the default\)/],
  [{ memory_mb: 0 }, /memory_mb' must be greater than 0/],
  [{ redis_memory_mb: 512, redis_memory_limit_mb: 256 }, /redis_memory_limit_mb'/],
  [{ db_storage_gi: 0 }, /db_storage_gi'/],
  [{ core_cpu: 2, core_cpu_limit: 1 }, /core_cpu_limit'/],
  [{ core_memory_mb: 2, core_memory_limit_mb: 1 }, /core_memory_limit_mb'/],
];

test("refuses a contradictory spec, naming the field", () => {
  for (const [spec, text] of refused)
    assert.match(
      refusal(() => normalizeResourceSpec(spec)),
      text,
      JSON.stringify(spec),
    );
});

test("treats a spec of nulls like an empty one", () => {
  const nulls: ResourceSpec = { min_scale: null, cpu: null, memory_limit_mb: null, labels: null };
  assert.deepEqual(effectiveSizes(null, normalizeResourceSpec(nulls)), effectiveSizes(null, {}));
});

test("defaults of an external image: one replica, one core, 2 GiB, limits twice that, Redis not doubled", () => {
  const { queue, redis, database, ...server } = effectiveSizes(null, null);
  const workload = {
    minReplicas: 1,
    maxReplicas: 1,
    cpuCores: 1,
    cpuLimitCores: 2,
    memoryMib: 2048,
    memoryLimitMib: 4096,
  };
  assert.deepEqual(server, workload);
  assert.deepEqual(queue, workload);
  assert.deepEqual([redis.memoryMib, redis.memoryLimitMib], [2048, 2048]);
  assert.deepEqual([database.storageGib, database.connectionsMax], [10, 100]);
});

test("the queue uses the server's sizes unless it has its own", () => {
  const { queue } = effectiveSizes(null, { cpu: 3, memory_mb: 512, min_scale: 2, max_scale: 5, queue_cpu: 1 });
  assert.deepEqual(queue, {
    minReplicas: 2,
    maxReplicas: 5,
    cpuCores: 1,
    cpuLimitCores: 2,
    memoryMib: 512,
    memoryLimitMib: 1024,
  });
});

test("a deployment type determines the size and ignores the spec", () => {
  const sizes = (type: DeploymentType) => {
    const { minReplicas, maxReplicas, cpuCores, memoryMib } = effectiveSizes(type, { cpu: 8 });
    return [minReplicas, maxReplicas, cpuCores, memoryMib];
  };
  assert.deepEqual(sizes("dev"), [1, 1, 1, 1024]);
  assert.deepEqual(sizes("dev_free"), [1, 1, 1, 1024]);
  assert.deepEqual(sizes("prod"), [1, 10, 2, 2048]);
  assert.deepEqual(sizes("dev_zero"), [0, 1, 1, 1024]);
  assert.deepEqual(sizes("dev_free_zero"), [0, 1, 1, 1024]);
  assert.deepEqual(
    ["dev_zero", "prod", null].map((type) => scalesToZero(type as DeploymentType | null)),
    [true, false, false],
  );
  assert.equal(shownDeploymentType(null), "prod");
});

test("a size sets a replica's limits, and larger sizes guarantee half of them", () => {
  const sizes = (type: DeploymentType, size: Size) => {
    const of = effectiveSizes(type, null, { compute: size, database: size });
    const { cpuCores, cpuLimitCores, memoryMib, memoryLimitMib } = of;
    return [cpuCores, cpuLimitCores, memoryMib / 1024, memoryLimitMib / 1024, of.database.memoryLimitMib / 1024];
  };
  const all = (type: DeploymentType) => (["S", "M", "L"] as const).map((size) => sizes(type, size));
  const dedicated = [
    [2, 3, 2, 6, 4],
    [2.5, 5, 6, 12, 8],
    [5, 10, 12, 24, 16],
  ];
  const serverless = [
    [1, 1, 1, 3, 4],
    [2.5, 5, 3, 6, 4],
    [4.5, 9, 5.5, 11, 4],
  ];
  assert.deepEqual(all("prod"), dedicated);
  assert.deepEqual(all("dev_zero"), serverless);
  assert.deepEqual(effectiveSizes("prod", null), effectiveSizes("prod", null, { compute: "S", database: "S" }));
  assert.deepEqual(sizes("dev", "L"), [1, 1, 1, 1, 4]);
});

test("in any accepted spec every limit covers its request and every range allows a replica", () => {
  const count = fc.option(fc.integer({ min: -1, max: 120 }), { nil: null });
  const cores = fc.option(fc.double({ min: 0.1, max: 16, noNaN: true }), { nil: null });
  const spec = fc.record({
    min_scale: count,
    max_scale: count,
    queue_min_scale: count,
    queue_max_scale: count,
    cpu: cores,
    cpu_limit: cores,
    memory_mb: count,
    memory_limit_mb: count,
  });
  fc.assert(
    fc.property(spec, (given) => {
      if (refusal(() => normalizeResourceSpec(given)) !== "accepted") return;
      const sizes = effectiveSizes(null, normalizeResourceSpec(given));
      for (const part of [sizes, sizes.queue]) {
        assert.ok(part.minReplicas <= part.maxReplicas && part.maxReplicas >= 1 && part.maxReplicas <= 100);
        assert.ok(part.cpuCores <= part.cpuLimitCores && part.memoryMib <= part.memoryLimitMib && part.memoryMib > 0);
      }
    }),
  );
});
