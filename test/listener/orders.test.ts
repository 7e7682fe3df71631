import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { pino } from "pino";
import { createListenerClient, type ListenerSession } from "../../src/client/listener-client.ts";
import { SimulatedWorld } from "../../src/compute/simulated.ts";
import { Leadership } from "../../src/listener/session/leadership.ts";
import { ControlPlane } from "./control-plane.ts";
import { newRun } from "./harness.ts";
import { startVirtualProcess, VirtualClock } from "./virtual-world.ts";

function newControlPlane(clock: VirtualClock): ControlPlane {
  const controlPlane = new ControlPlane(clock);
  controlPlane.heartbeatS = 10;
  controlPlane.leaseTtlS = 30;
  return controlPlane;
}

test("a listener that is to drain ends its session and changes nothing; what runs goes on, and what was asked for comes afterwards", async () => {
  const clock = new VirtualClock(1);
  const world = new SimulatedWorld({ seed: 1, clock });
  const controlPlane = newControlPlane(clock);
  const { listener } = startVirtualProcess(clock, world, controlPlane.send, {}, controlPlane.openStream);
  const first = newRun();
  const { deployment_id } = controlPlane.assign({ deployment_id: randomUUID(), target: first });
  await clock.pass(120_000);
  const ready = () => world.snapshot().flatMap(({ revisionId, phase }) => (phase === "ready" ? [revisionId] : []));
  assert.deepEqual(ready(), [first.revision_id]);

  controlPlane.orders = { drain: true };
  await clock.pass(40_000);
  assert.deepEqual([listener.health().isLeading, listener.health().isDrained], [false, true]);
  assert.equal(
    controlPlane.calls.filter(({ path }) => path === "/dp/v1/sessions").length >= 2,
    true,
    "it said goodbye",
  );
  const second = newRun();
  controlPlane.assign({ deployment_id, target: second });
  await clock.pass(600_000);
  assert.deepEqual(ready(), [first.revision_id]);

  controlPlane.orders = { drain: false };
  await clock.pass(120_000);
  assert.deepEqual([listener.health().isLeading, listener.health().isDrained], [true, false]);
  assert.deepEqual(ready(), [second.revision_id]);
});

test("a listener that is started while it is to drain stands by and says so, and not that nobody answers", async () => {
  const clock = new VirtualClock(1);
  const controlPlane = newControlPlane(clock);
  controlPlane.orders = { drain: true };
  const { leadership, said } = startLeadership(clock, controlPlane);
  await clock.pass(300_000);
  assert.deepEqual([leadership.session, leadership.isDrained], [null, true]);
  assert.deepEqual(said(), ["listener drained, changes nothing"]);
  controlPlane.orders = {};
  await clock.pass(30_000);
  assert.ok(leadership.session !== null && !leadership.isDrained);
  assert.deepEqual(said().slice(1), ["listener resumed, changes are applied"]);
  await leadership.stop();
});

test("a listener logs at the level it is told, and at its own once nothing is told, or once it no longer acts", async () => {
  const clock = new VirtualClock(1);
  const controlPlane = newControlPlane(clock);
  const { leadership, logger } = startLeadership(clock, controlPlane);
  await clock.pass(60_000);
  assert.equal(logger.level, "warn");
  controlPlane.orders = { log_level: "debug" };
  await clock.pass(60_000);
  assert.equal(logger.level, "debug");
  controlPlane.orders = { log_level: null };
  await clock.pass(60_000);
  assert.equal(logger.level, "warn");
  controlPlane.orders = { log_level: "debug" };
  await clock.pass(60_000);
  await leadership.stop();
  assert.equal(logger.level, "warn");
});

function startLeadership(clock: VirtualClock, controlPlane: ControlPlane) {
  const lines: { message: string }[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  const logger = pino({ messageKey: "message", level: "warn" }, { write });
  const nothing = () => {};
  const leadership = new Leadership({
    ...{ client: createListenerClient(controlPlane.send), clock, logger, held: () => [], requiresLease: false },
    request: { instance_id: "one", version: "1", protocols: [1], compute_type: "simulated" },
    onGained: (_: ListenerSession) => {},
    ...{ onLost: nothing, onAssignments: nothing, onListed: nothing, onUnknown: nothing, onLeaseRegained: nothing },
  });
  leadership.start();
  return { leadership, logger, said: () => lines.map(({ message }) => message) };
}
