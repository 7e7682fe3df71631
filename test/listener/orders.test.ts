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

test("ends its session and changes nothing while it drains, keeps replicas running, and applies the assignments afterwards", async () => {
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
    "it closed its session",
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

test("logs that it is drained when it starts during a drain, and not that the control plane does not answer", async () => {
  const clock = new VirtualClock(1);
  const controlPlane = newControlPlane(clock);
  controlPlane.orders = { drain: true };
  const { leadership, messages } = startLeadership(clock, controlPlane);
  await clock.pass(300_000);
  assert.deepEqual([leadership.session, leadership.isDrained], [null, true]);
  assert.deepEqual(messages(), ["listener drained, changes nothing"]);
  controlPlane.orders = {};
  await clock.pass(30_000);
  assert.ok(leadership.session !== null && !leadership.isDrained);
  assert.deepEqual(messages().slice(1), ["listener resumed, changes are applied"]);
  await leadership.stop();
});

test("logs at the level that the control plane sets, and at its own level without one or without a session", async () => {
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
  return { leadership, logger, messages: () => lines.map(({ message }) => message) };
}
