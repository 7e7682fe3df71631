import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReplicaState } from "../../src/compute/compute.ts";
import { Observations } from "../../src/listener/replicas/observations.ts";

const replica = (phase: ReplicaState["phase"], parts: Partial<ReplicaState> = {}): ReplicaState => ({
  replicaId: "r-1",
  deploymentId: "d-1",
  revisionId: "r",
  phase,
  startedAt: new Date(0),
  limits: { memory: "enforced", cpu: "enforced" },
  ...parts,
});

const phases = (sightings: Observations) => sightings.of("d-1").map(({ phase, exit }) => exit?.reason ?? phase);

test("does not count a replica as lost by an observation that began before its start", () => {
  const sightings = new Observations();
  sightings.expect(replica("starting"), 5, null);
  sightings.update([], 5);
  assert.deepEqual(phases(sightings), ["starting"]);
});

test("counts a replica as lost once two observations miss it", () => {
  const sightings = new Observations();
  sightings.update([replica("ready")], 1);
  assert.deepEqual(sightings.update([], 2), { changed: new Set(), isUncertain: true });
  assert.deepEqual(phases(sightings), ["ready"]);
  assert.deepEqual(sightings.update([], 3).changed, new Set(["d-1"]));
  assert.deepEqual(phases(sightings), ["Lost"]);
});

test("confirms a refused start by a later observation without the replica, and discards the refusal by one with it", () => {
  for (const [seen, expected] of [
    [[], ["EngineRefused"]],
    [[replica("ready")], ["ready"]],
  ] as const) {
    const sightings = new Observations();
    sightings.expect(replica("starting"), 1, { reason: "EngineRefused", message: "no space left" });
    sightings.update([], 1);
    assert.deepEqual(phases(sightings), ["starting"]);
    sightings.update([...seen], 2);
    assert.deepEqual(phases(sightings), expected);
  }
});

test("an observation brings a removed replica back only if it began after the removal", () => {
  const sightings = new Observations();
  sightings.update([replica("ready")], 1);
  sightings.forget("d-1", "r-1", 2);
  sightings.update([replica("ready")], 2);
  assert.deepEqual(phases(sightings), []);
  sightings.update([replica("ready")], 3);
  assert.deepEqual(phases(sightings), ["ready"]);
});

test("returns only deployments that differ as changed", () => {
  const sightings = new Observations();
  const seen = [replica("ready"), replica("ready", { replicaId: "r-2", deploymentId: "d-2" })];
  assert.deepEqual(sightings.update(seen, 1).changed, new Set(["d-1", "d-2"]));
  assert.deepEqual(
    sightings.update(
      seen.map((state) => ({ ...state })),
      2,
    ).changed,
    new Set(),
  );
  const crashed = replica("exited", { replicaId: "r-2", deploymentId: "d-2" });
  assert.deepEqual(sightings.update([replica("ready"), crashed], 3).changed, new Set(["d-2"]));
});
