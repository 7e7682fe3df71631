import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { compileValidator } from "../../src/api/validation/validate.ts";
import type { Compute, ReplicaLogs } from "../../src/compute/compute.ts";
import { openSimulatedCompute, type SimulatedWorld } from "../../src/compute/simulated.ts";
import { LogBatch } from "../../src/contract/listeners/assignment.ts";
import { deployed, eventually, newRun, startSite } from "./harness.ts";

test("ships each line once and in order, also those of a replica that died while starting", async () => {
  await using site = await startSite();
  const output = new Output();
  await site.startProcess({ compute: output.on(site.world) });
  const { run } = await deployed(site);
  const [replica] = site.world.snapshot();
  output.write(replica?.replicaId, ["one", "two"]);
  await eventually(
    () => site.controlPlane.lines.size,
    (count) => count === 2,
  );
  output.write(replica?.replicaId, ["three"]);
  await eventually(
    () => site.controlPlane.lines.size,
    (count) => count === 3,
  );
  const lines = [...site.controlPlane.lines.values()];
  assert.deepEqual(
    lines.map(({ message }) => message),
    ["one", "two", "three"],
  );
  assert.equal(lines[0]?.revision_id, run.revision_id);
  assert.equal(lines[0]?.replica_id, replica?.replicaId);
  assert.equal(site.controlPlane.logLinesSent, 3);

  output.linesAtStart = ["it cannot work", "because of this"];
  const broken = newRun({ env: { SIMULATE_START: "exit" } });
  site.controlPlane.assign({ deployment_id: replica?.deploymentId ?? "", target: broken });
  const last = () =>
    [...site.controlPlane.lines.values()].filter(({ revision_id }) => revision_id === broken.revision_id);
  await eventually(last, (found) => found.map(({ message }) => message).join() === "it cannot work,because of this");
});

test("sanitizes lines with a zero byte or half a character, so that the control plane accepts them", async () => {
  await using site = await startSite();
  const output = new Output();
  await site.startProcess({ compute: output.on(site.world) });
  await deployed(site);
  output.write(site.world.snapshot()[0]?.replicaId, ["a\u0000b", `${"x".repeat(65_535)}\u{1f600}`, "after"]);
  const taken = () => [...site.controlPlane.lines.values()];
  await eventually(taken, (lines) => lines.length === 3);
  assert.deepEqual(compileValidator(LogBatch, "body")({ lines: taken() }).problems, []);
  assert.equal(taken()[0]?.message, "ab");
});

test("drops lines of a flood, reports how many, and delays no other replica", async () => {
  await using site = await startSite();
  const output = new Output();
  await site.startProcess({ compute: output.on(site.world) });
  await deployed(site);
  await deployed(site);
  const [noisy, calm] = site.world.snapshot();
  output.write(
    noisy?.replicaId,
    Array.from({ length: 60_000 }, (_, index) => `noise ${index}`),
  );
  output.write(calm?.replicaId, ["calm"]);
  const of = (replicaId?: string) =>
    [...site.controlPlane.lines.values()].filter(({ replica_id }) => replica_id === replicaId);
  await eventually(
    () => of(calm?.replicaId),
    (lines) => lines.length === 1,
  );
  const dropNotice = /^(\d+) lines dropped/;
  const dropped = () =>
    of(noisy?.replicaId).reduce((sum, { message }) => sum + Number(dropNotice.exec(message)?.[1] ?? 0), 0);
  const kept = () => of(noisy?.replicaId).filter(({ message }) => message.startsWith("noise")).length;
  await eventually(
    () => dropped() + kept(),
    (sum) => sum === 60_000,
  );
  assert.ok(kept() >= 10_000 && kept() < 40_000, `${kept()} lines were kept`);
  assert.ok(of(noisy?.replicaId).length - kept() < 50, "few lines report the drops");
});

test("stops reading while the control plane is away, and loses or repeats nothing afterwards", async () => {
  await using site = await startSite();
  const output = new Output();
  await site.startProcess({ compute: output.on(site.world) });
  await deployed(site);
  const [replica] = site.world.snapshot();
  site.controlPlane.goAway();
  for (let second = 0; second < 3; second++) {
    output.write(
      replica?.replicaId,
      Array.from({ length: 1_000 }, (_, index) => `${second}-${index} ${"x".repeat(1_000)}`),
    );
  }
  const readBefore = output.bytesRead;
  await eventually(
    () => output.bytesRead - readBefore,
    (bytes) => bytes > 1_000_000,
  );
  site.controlPlane.isAway = false;
  await eventually(
    () => site.controlPlane.lines.size,
    (count) => count === 3_000,
    60_000,
  );
  const messages = [...site.controlPlane.lines.values()].map(({ message }) => message);
  assert.deepEqual([messages[0]?.slice(0, 3), messages.at(-1)?.slice(0, 5)], ["0-0", "2-999"]);
});

test("continues after a restart behind the last line that the control plane has", async () => {
  await using site = await startSite();
  const dir = await mkdtemp(path.join(tmpdir(), "pierhead-logs-"));
  const logCursorsPath = path.join(dir, "cursors.json");
  const output = new Output();
  const first = await site.startProcess({ compute: output.on(site.world), logCursorsPath });
  await deployed(site);
  const [replica] = site.world.snapshot();
  output.write(replica?.replicaId, ["before"]);
  await eventually(
    () => site.controlPlane.lines.size,
    (count) => count === 1,
  );
  // After some rounds of reading, the call has been answered as well.
  const reads = output.readsOfNothing;
  await eventually(
    () => output.readsOfNothing - reads,
    (count) => count >= 10,
  );
  await first.stop();
  output.write(replica?.replicaId, ["meanwhile"]);
  await site.startProcess({ compute: output.on(site.world), logCursorsPath });
  await eventually(
    () => site.controlPlane.lines.size,
    (count) => count === 2,
  );
  assert.equal(site.controlPlane.logLinesSent, 2);
  await rm(dir, { recursive: true });
});

/** The logs of replicas, which the simulated driver does not have. */
class Output {
  bytesRead = 0;
  readsOfNothing = 0;
  linesAtStart: string[] = [];
  readonly #lines = new Map<string, string[]>();

  write(replicaId: string | undefined, lines: string[]): void {
    const all = this.#lines.get(replicaId ?? "") ?? [];
    this.#lines.set(replicaId ?? "", all);
    for (const line of lines) all.push(line);
  }

  on(world: SimulatedWorld): Compute & ReplicaLogs {
    const compute = openSimulatedCompute({ world });
    return Object.assign(compute, {
      readLogs: async (replicaId: string, after: string | null, bytesMax: number) => {
        if (!this.#lines.has(replicaId)) this.write(replicaId, this.linesAtStart);
        return this.#read(replicaId, Number(after ?? 0), bytesMax);
      },
    });
  }

  #read(replicaId: string, from: number, bytesMax: number) {
    const all = this.#lines.get(replicaId) ?? [];
    let bytes = 0;
    let end = from;
    while (end < all.length && bytes < bytesMax) bytes += all[end++]?.length ?? 0;
    this.bytesRead += bytes;
    if (bytes === 0) this.readsOfNothing += 1;
    const lines = all.slice(from, end).map((message, index) => ({
      key: `${replicaId}:${from + index}`,
      timestamp: new Date(),
      stream: "stdout" as const,
      level: "INFO",
      message,
    }));
    return { lines, cursor: String(end) };
  }
}
