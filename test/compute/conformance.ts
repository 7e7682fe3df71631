import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import type { Compute, ReplicaSpec, ReplicaState } from "../../src/compute/compute.ts";
import { eventually } from "../support/eventually.ts";

export interface ComputeUnderTest {
  /** Opens the driver. Opened again after `close`, it must find the replicas of the earlier driver. */
  open(): Promise<Compute>;
  /**
   * Returns a new replica that becomes ready, or exits on its own with code 3 and a last line with its cause, or
   * runs but never answers its health check.
   */
  spec(kind: "healthy" | "broken" | "hanging"): ReplicaSpec;
  /** True when replicas are real: agents that answer at their address. */
  answers: boolean;
  /** Removes everything the suite left behind. */
  end(): Promise<void>;
}

const soon = () => AbortSignal.timeout(60_000);

/** Returns whether this very replica answers, because a free port may soon belong to a replica of another test file. */
async function answers({ address, revisionId }: ReplicaState): Promise<boolean> {
  const asked = await fetch(`http://${address?.host}:${address?.port}/env`).catch(() => undefined);
  const answer = asked?.ok ? ((await asked.json().catch(() => null)) as { env?: Record<string, string> } | null) : null;
  return answer?.env?.[revisionVariable] === revisionId;
}

const revisionVariable = "OF_REVISION";
const broken = "cannot start: no such model";

/** Contract of every driver with the listener. All drivers run this suite. */
export function computeConformance(name: string, prepare: () => Promise<ComputeUnderTest>): void {
  describe(`compute ${name}`, () => {
    let world: ComputeUnderTest;
    let compute: Compute;
    const stateOf = async (spec: ReplicaSpec) =>
      (await compute.observe(soon())).find((state) => state.replicaId === spec.replicaId);
    const reaches = (spec: ReplicaSpec, phase: ReplicaState["phase"]) =>
      eventually(
        () => stateOf(spec),
        (state) => state?.phase === phase || state?.phase === "exited",
      ).then((state) => {
        assert.equal(state?.phase, phase, JSON.stringify(state));
        return state;
      });
    const remove = (spec: ReplicaSpec) => compute.remove(spec.replicaId, { graceMs: 5_000, signal: soon() });

    before(async () => {
      world = await prepare();
      compute = await world.open();
    });
    after(async () => {
      await compute?.close();
      await world?.end();
    });

    test("a replica becomes ready at an address that answers", async () => {
      const spec = world.spec("healthy");
      await compute.ensure(spec, soon());
      const state = await reaches(spec, "ready");
      assert.equal(state.deploymentId, spec.deploymentId);
      assert.equal(state.revisionId, spec.revisionId);
      assert.ok(state.address !== undefined && state.address.port > 0);
      assert.ok(state.limits.memory.length > 0 && state.limits.cpu.length > 0);
      assert.ok(Math.abs(state.startedAt.getTime() - Date.now()) < 300_000);
      if (world.answers) assert.ok(await answers(state));
      await remove(spec);
    });

    test("a replica that is ensured twice, also concurrently, runs once", async () => {
      const spec = world.spec("healthy");
      await Promise.all([compute.ensure(spec, soon()), compute.ensure(spec, soon())]);
      const first = await reaches(spec, "ready");
      await compute.ensure(spec, soon());
      const states = (await compute.observe(soon())).filter((state) => state.replicaId === spec.replicaId);
      assert.deepEqual(states, [first]);
      await remove(spec);
    });

    test("a removed replica is gone when remove resolves, and no longer answers", async () => {
      const spec = world.spec("healthy");
      await compute.ensure(spec, soon());
      const state = await reaches(spec, "ready");
      await remove(spec);
      assert.equal(await stateOf(spec), undefined);
      if (world.answers) assert.equal(await answers(state), false);
    });

    test("a replica can be removed while it starts", async () => {
      const spec = world.spec("hanging");
      await compute.ensure(spec, soon());
      await remove(spec);
      assert.equal(await stateOf(spec), undefined);
    });

    test("removeAll removes all replicas, also those that are starting", async () => {
      const specs = [world.spec("healthy"), world.spec("healthy"), world.spec("hanging")];
      const [first, ...others] = specs as [ReplicaSpec, ...ReplicaSpec[]];
      await compute.ensure(first, soon());
      const running = await reaches(first, "ready");
      // The test does not wait for these starts, as when the listener has stopped.
      const leave = new AbortController();
      const left = Promise.allSettled(others.map((spec) => compute.ensure(spec, leave.signal)));
      leave.abort();
      await Promise.all([compute.removeAll({ graceMs: 5_000, signal: soon() }), left]);
      assert.deepEqual(await compute.observe(soon()), []);
      // Leftovers of a start in progress show once the driver has waited for it.
      await compute.close();
      compute = await world.open();
      assert.deepEqual(await compute.observe(soon()), []);
      if (world.answers) assert.equal(await answers(running), false);
    });

    test("removing twice, also concurrently, and removing an unknown replica is no error", async () => {
      const spec = world.spec("healthy");
      await compute.ensure(spec, soon());
      await Promise.all([remove(spec), remove(spec)]);
      await remove(spec);
      await remove({ ...spec, replicaId: `${randomUUID()}-1` });
    });

    test("a broken start exits with code and last lines, stays exited over ensure, and disappears with remove", async () => {
      const spec = world.spec("broken");
      await compute.ensure(spec, soon());
      const exited = await reaches(spec, "exited");
      assert.equal(exited.exit?.reason, "Exited");
      assert.equal(exited.exit.exitCode, 3);
      // An engine may return two streams of the same millisecond in either order.
      assert.ok(exited.exit.lastLines.slice(-2).includes(broken), exited.exit.lastLines.join());
      assert.ok(exited.exit.lastLines.length <= 30);
      assert.ok(exited.exit.message.length > 20);
      assert.equal(exited.address, undefined);
      await compute.ensure(spec, soon());
      assert.deepEqual(await stateOf(spec), exited);
      await remove(spec);
      assert.equal(await stateOf(spec), undefined);
    });

    test("a replica that is not ready at its start deadline is killed and exits as NotHealthy", async () => {
      const spec = { ...world.spec("hanging"), startTimeoutMs: 700 };
      await compute.ensure(spec, soon());
      const exited = await reaches(spec, "exited");
      assert.equal(exited.exit?.reason, "NotHealthy");
      await remove(spec);
    });

    test("calls back when a replica becomes ready and when it exits", async () => {
      let notifications = 0;
      compute.onChange(() => notifications++);
      const [healthy, failing] = [world.spec("healthy"), world.spec("broken")];
      await compute.ensure(healthy, soon());
      await reaches(healthy, "ready");
      await eventually(
        async () => notifications,
        (seen) => seen > 0,
      );
      notifications = 0;
      await compute.ensure(failing, soon());
      await reaches(failing, "exited");
      await eventually(
        async () => notifications,
        (seen) => seen > 0,
      );
      await Promise.all([remove(healthy), remove(failing)]);
    });

    test("a driver that is opened again finds the replicas that kept running", async () => {
      const [healthy, failing] = [world.spec("healthy"), world.spec("broken")];
      await Promise.all([compute.ensure(healthy, soon()), compute.ensure(failing, soon())]);
      const ready = await reaches(healthy, "ready");
      const exited = await reaches(failing, "exited");
      await compute.close();
      if (world.answers) assert.ok(await answers(ready), "it answers while no driver is open");
      compute = await world.open();
      const again = await reaches(healthy, "ready");
      assert.deepEqual(again, ready);
      assert.deepEqual(await stateOf(failing), exited);
      if (world.answers) assert.ok(await answers(again));
      await Promise.all([remove(healthy), remove(failing)]);
    });

    test("an aborted call does nothing", async () => {
      const spec = world.spec("healthy");
      await assert.rejects(compute.ensure(spec, AbortSignal.abort()));
      await assert.rejects(compute.observe(AbortSignal.abort()));
      assert.equal(await stateOf(spec), undefined);
      await compute.ensure(spec, soon());
      await assert.rejects(compute.remove(spec.replicaId, { graceMs: 0, signal: AbortSignal.abort() }));
      await reaches(spec, "ready");
      await remove(spec);
    });

    test("removing state that does not exist is no error", async () => {
      await compute.removeState(randomUUID());
    });
  });
}

/** Common parts of a spec. Drivers add the artifact that behaves as requested. */
export function anySpec(artifact: ReplicaSpec["artifact"], env: Record<string, string> = {}): ReplicaSpec {
  const revisionId = randomUUID();
  return {
    replicaId: `${revisionId}-1`,
    deploymentId: randomUUID(),
    tenantId: randomUUID(),
    revisionId,
    artifact,
    env: { [revisionVariable]: revisionId, ...env },
    memoryLimitMib: 256,
    cpuLimitCores: 1,
    startTimeoutMs: 60_000,
    drainTimeoutMs: 2_000,
  };
}

/** The last line that a `broken` replica writes. */
export const brokenCause = broken;
