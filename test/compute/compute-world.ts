import assert from "node:assert/strict";
import type { Compute, ReplicaSpec, ReplicaState } from "../../src/compute/compute.ts";
import { eventually } from "../support/eventually.ts";

export const soon = () => AbortSignal.timeout(60_000);

/** Helpers for tests of any driver. */
export abstract class ComputeWorld {
  abstract compute: Compute;

  async start(spec: ReplicaSpec): Promise<ReplicaState> {
    await this.compute.ensure(spec, soon());
    return this.reaches(spec, "ready");
  }

  async stateOf(spec: ReplicaSpec): Promise<ReplicaState | undefined> {
    return (await this.compute.observe(soon())).find((state) => state.replicaId === spec.replicaId);
  }

  /** Waits for a phase. An exit instead fails at once, with its cause. */
  async reaches(spec: ReplicaSpec, phase: ReplicaState["phase"]): Promise<ReplicaState> {
    const state = await eventually(
      () => this.stateOf(spec),
      (seen) => seen?.phase === phase || seen?.phase === "exited",
    );
    assert.equal(state?.phase, phase, JSON.stringify(state));
    return state;
  }

  async exits(spec: ReplicaSpec) {
    const { exit } = await this.reaches(spec, "exited");
    assert.ok(exit !== undefined);
    return exit;
  }

  remove(spec: ReplicaSpec, graceMs = 5_000): Promise<void> {
    return this.compute.remove(spec.replicaId, { graceMs, signal: soon() });
  }

  /** Removes all replicas. @returns their previous states */
  protected async removeAll(): Promise<ReplicaState[]> {
    const states = await this.compute.observe(soon());
    await Promise.all(states.map(({ replicaId }) => this.compute.remove(replicaId, { graceMs: 0, signal: soon() })));
    return states;
  }
}
