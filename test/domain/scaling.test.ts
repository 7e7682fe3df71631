import assert from "node:assert/strict";
import { test } from "node:test";
import { type Load, neededReplicas, nextScale, type Scale } from "../../src/domain/scaling.ts";

const idle: Load = { replicas: 1, cpu: 0, memory: 0.2, pending: 0 };
const minute = 60_000;

test("scales to 75 % of CPU and memory limits and ten requests per replica, whichever needs most", () => {
  const table: [Partial<Load>, number][] = [
    [{}, 1],
    [{ cpu: 0.75 }, 1],
    [{ cpu: 0.82 }, 1],
    [{ cpu: 0.83 }, 2],
    [{ cpu: 1 }, 2],
    [{ replicas: 3, cpu: 0.75 }, 3],
    [{ replicas: 4, cpu: 1 }, 6],
    [{ replicas: 4, cpu: 0.3 }, 2],
    [{ replicas: 4, cpu: 0.69 }, 4],
    [{ replicas: 2, cpu: 0.1, memory: 0.95 }, 3],
    [{ pending: 10 }, 1],
    [{ pending: 11 }, 2],
    [{ pending: 20 }, 2],
    [{ pending: 101, cpu: 0.9 }, 11],
    [{ cpu: null, memory: null, pending: 0 }, 0],
    [{ cpu: null, memory: null, pending: 35 }, 4],
  ];
  for (const [load, wanted] of table) {
    assert.equal(neededReplicas({ ...idle, ...load }), wanted, JSON.stringify(load));
  }
});

test("scales up at once, and down after the hold time to the most replicas needed in it", () => {
  const bounds = { min: 1, max: 10, holdMs: 30 * minute };
  let scale: Scale = { replicas: 1, lower: null };
  // minute, needed, replicas after it
  const table: [number, number, number][] = [
    [0, 1, 1],
    [1, 6, 6],
    [2, 12, 10],
    [3, 2, 10],
    [10, 4, 10],
    [20, 1, 10],
    [32, 1, 10],
    [33, 1, 4],
    [40, 1, 4],
    [60, 4, 4],
    [61, 2, 4],
    [90, 2, 4],
    [91, 0, 2],
    [200, 0, 2],
    [230, 0, 1],
    [300, 0, 1],
  ];
  for (const [atMin, needed, wanted] of table) {
    scale = nextScale(scale, needed, bounds, atMin * minute);
    assert.equal(scale.replicas, wanted, `minute ${atMin}`);
  }
});

test("respects the bounds, and applies a raised minimum at once", () => {
  const at = (scale: Scale, needed: number, min: number, max: number) =>
    nextScale(scale, needed, { min, max, holdMs: minute }, 0).replicas;
  assert.equal(at({ replicas: 2, lower: null }, 0, 3, 5), 3);
  assert.equal(at({ replicas: 1, lower: null }, 100, 1, 5), 5);
  assert.equal(at({ replicas: 1, lower: null }, 100, 1, 1), 1);
});
