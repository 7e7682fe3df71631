import { after, before, test } from "node:test";
import { livePartition, openPartitionWorld, type PartitionWorld } from "./partition.ts";

/** 20 for the gate; `PIERHEAD_TEST_PARTITIONS=200 npm test -- test/listener/partition.test.ts` for more. */
const runs = Number(process.env["PIERHEAD_TEST_PARTITIONS"] ?? 20);
const firstSeed = Number(process.env["PIERHEAD_TEST_SEED"] ?? 1);

let site: PartitionWorld;
before(async () => {
  site = await openPartitionWorld();
});
after(() => site[Symbol.asyncDispose]());

for (let seed = firstSeed; seed < firstSeed + runs; seed++) {
  test(`survives a partition between listener and control plane, seed ${seed}`, async () => {
    await livePartition(site, seed);
  });
}
