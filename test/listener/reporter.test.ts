import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { compileValidator } from "../../src/api/validation/validate.ts";
import { CallRefused, type ListenerSession } from "../../src/client/listener-client.ts";
import { bodyLimits } from "../../src/contract/body-limits.ts";
import { type DeploymentReport, StatusBatch } from "../../src/contract/listeners/assignment.ts";
import { Reporter } from "../../src/listener/session/reporter.ts";
import type { Snapshot } from "../../src/listener/session/snapshot.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { VirtualClock } from "./virtual-world.ts";

test("sends urgent changes at once, others within a second, and nothing twice", async () => {
  const { clock, reporter, batches } = open();
  reporter.put(snapshot("a", { target_phase: "starting" }));
  await clock.pass(20);
  assert.deepEqual(named(batches), [["a"]]);
  reporter.put(snapshot("a", { target_phase: "ready" }));
  reporter.put(snapshot("a", { target_phase: "ready", server_version: "1" }));
  await clock.pass(20);
  assert.deepEqual(
    batches.at(-1)?.map(({ server_version }) => server_version),
    ["1"],
    "one snapshot, the newest",
  );
  reporter.put(snapshot("a", { target_phase: "ready", server_version: "2" }));
  await clock.pass(500);
  assert.equal(batches.length, 2);
  await clock.pass(600);
  assert.equal(batches.length, 3);
  reporter.put(snapshot("a", { target_phase: "ready", server_version: "2" }));
  await clock.pass(60_000);
  assert.equal(batches.length, 3);
});

test("sends at most 100 reports per batch with growing numbers, urgent ones first", async () => {
  const { clock, reporter, batches } = open();
  for (let count = 0; count < 250; count++) reporter.put(snapshot(`d-${count}`));
  await clock.pass(5_000);
  assert.deepEqual(
    batches.map(({ length }) => length),
    [100, 100, 50],
  );
  for (let count = 0; count < 250; count++) reporter.put(snapshot(`d-${count}`, { server_version: "1" }));
  reporter.put(snapshot("d-249", { target_phase: "ready" }));
  await clock.pass(20);
  assert.equal(batches[3]?.[0]?.deployment_id, "d-249");
  await clock.pass(5_000);
  const numbers = batches.flat().map(({ seq }) => seq);
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(numbers).size, numbers.length);
});

test("reports a failure however long the agent's last lines are", async () => {
  const { clock, reporter, batches } = open();
  const line = JSON.stringify({ state: "x".repeat(2_000_000) });
  const cause = {
    reason: "Exited",
    message: "exit code 1",
    exit_code: 1,
    signal: null,
    last_lines: Array(30).fill(line),
  };
  reporter.put(snapshot("a", { target_phase: "failed", cause }));
  await clock.pass(20);
  const [report] = batches[0] ?? [];
  assert.ok(JSON.stringify(report).length < bodyLimits.report.bytesMax / 2, "within the limit of a body");
  assert.deepEqual(
    report?.cause?.last_lines.map((one) => line.startsWith(one)),
    Array(30).fill(true),
  );
});

test("keeps the newest snapshot of each deployment while the control plane is away, and sends all to a new session", async () => {
  const { clock, reporter, batches, session, state } = open();
  reporter.put(snapshot("a"));
  await clock.pass(20);
  state.failure = new Error("connection refused");
  for (let count = 0; count < 100; count++) {
    reporter.put(snapshot("a", { generation: 2 + count }));
    reporter.put(snapshot("b", { generation: 2 + count }));
    await clock.pass(60_000);
  }
  assert.equal(reporter.pendingCount, 2);
  state.failure = null;
  await clock.pass(60_000);
  assert.deepEqual(
    batches.at(-1)?.map(({ generation }) => generation),
    [101, 101],
  );
  assert.equal(reporter.pendingCount, 0);
  reporter.follow(session);
  reporter.put(snapshot("a", { generation: 101 }));
  await clock.pass(20);
  assert.deepEqual(
    batches.at(-1)?.map(({ seq }) => seq),
    [1],
  );
});

test("drops a report that the control plane refuses, and sends the others", async () => {
  const { clock, reporter, batches, state } = open();
  state.poison = "d-37";
  for (let count = 0; count < 100; count++) reporter.put(snapshot(`d-${count}`));
  await clock.pass(5_000);
  assert.equal(reporter.pendingCount, 0);
  assert.equal(new Set(batches.flat().map(({ deployment_id }) => deployment_id)).size, 99);
});

test("sends a report that the control plane accepts, whatever the agent printed before it died", async () => {
  const { clock, reporter, batches } = open();
  const printed = ["a\u0000b", `${"x".repeat(9)}\u{1f600}`.slice(0, 10)];
  const cause = { reason: "Exited", message: printed.join(" "), exit_code: 1, signal: null, last_lines: printed };
  const of = { target_revision_id: randomUUID(), target_phase: "failed", cause, server_version: "1\u0000" } as const;
  reporter.put(snapshot(randomUUID(), of));
  await clock.pass(20);
  const [reports = []] = batches;
  assert.deepEqual(compileValidator(StatusBatch, "body")({ reports }).problems, []);
  assert.deepEqual(reports[0]?.cause?.last_lines, ["ab", `${"x".repeat(9)}\ufffd`]);
});

function open() {
  const clock = new VirtualClock(1);
  const batches: DeploymentReport[][] = [];
  const state: { failure: Error | null; poison: string | null } = { failure: null, poison: null };
  const session = {
    async report({ reports }: { reports: DeploymentReport[] }) {
      if (state.failure !== null) throw state.failure;
      const isPoisoned = reports.some(({ deployment_id }) => deployment_id === state.poison);
      if (isPoisoned) throw new CallRefused(422, null, "invalid");
      batches.push(reports);
    },
  } as unknown as ListenerSession;
  const nothing = () => {};
  const reporter = new Reporter({ clock, logger: createLogger("silent"), onStored: nothing, onStale: nothing });
  reporter.follow(session);
  return { clock, reporter, batches, session, state };
}

const named = (batches: DeploymentReport[][]) =>
  batches.map((batch) => batch.map(({ deployment_id }) => deployment_id));

function snapshot(deployment_id: string, parts: Partial<Snapshot> = {}): Snapshot {
  return {
    deployment_id,
    generation: 1,
    target_revision_id: "r",
    target_phase: "starting",
    serving_revision_id: null,
    asleep: false,
    deleted: false,
    server_version: null,
    cause: null,
    replicas: [],
    ...parts,
  };
}
