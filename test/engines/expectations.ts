import assert from "node:assert/strict";
import { eventually } from "../support/eventually.ts";
import type { Loose } from "./checks.ts";
import type { Replica, Step } from "./replicas.ts";

export interface Started {
  thread_id: string;
  run_id: string;
}

/** Starts runs on new threads, in turn on the replicas. */
export function startRuns(replicas: Replica[], count: number, input: Loose): Promise<Started[]> {
  return Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const { client } = replicas[index % replicas.length] as Replica;
      const { thread_id } = await client.threads.create();
      const { run_id } = await client.runs.create(thread_id, "steps", {
        input,
        streamMode: "custom",
        streamResumable: true,
      });
      return { thread_id, run_id };
    }),
  );
}

export async function expectComplete({ client }: Replica, runs: Started[], total: number): Promise<void> {
  for (const { thread_id, run_id } of runs) {
    await eventually(
      () => client.runs.get(thread_id, run_id),
      (run: Loose) => run.status !== "pending" && run.status !== "running",
      { timeoutMs: 60_000, what: "the end of the run" },
    );
    const { status } = await client.runs.get(thread_id, run_id);
    const { error } = status === "success" ? {} : await client.threads.get(thread_id);
    assert.equal(status, "success", `run ${run_id}: ${JSON.stringify(error)}`);
    const { values } = await client.threads.getState(thread_id);
    assert.deepEqual(
      values.done,
      Array.from({ length: total }, (_, index) => index + 1),
    );
    assert.equal((await client.threads.get(thread_id)).status, "idle");
  }
}

/** No process works on a run after another one has begun to, and a process change repeats each step once at most. */
export function expectOneAtATime(steps: Step[], runs: Started[], total: number): void {
  for (const { run_id } of runs) {
    const mine = steps.filter((step) => step.run_id === run_id);
    const pids = mine.map(({ pid }) => pid);
    const changes = pids.filter((pid, index) => index > 0 && pid !== pids[index - 1]).length;
    assert.equal(new Set(pids).size, changes + 1, `run ${run_id} went back to an earlier process`);
    for (const one of new Set(pids)) {
      const events = mine.filter(({ pid }) => pid === one).map(({ event }) => event);
      const isWrong = events.some((event, index) => event !== (index % 2 === 0 ? "begin" : "end"));
      assert.ok(!isWrong, `run ${run_id} ran twice at once in process ${one}`);
    }
    for (let number = 1; number <= total; number += 1) {
      const begun = mine.filter(({ event, step }) => event === "begin" && step === number).length;
      assert.ok(begun <= 1 + changes, `run ${run_id}: step ${number} begun ${begun} times with ${changes} changes`);
    }
  }
}

/**
 * No step ends that another process has begun meanwhile, also if a run comes back to an earlier process, and a step is repeated at most once
 * for each time that its run begins again.
 */
export function expectNeverTwice(steps: Step[], runs: Started[], total: number) {
  const counts = { repeated: 0, restarts: 0, mostRepeated: 0 };
  const byRun = Map.groupBy(steps, ({ run_id }) => run_id);
  for (const { run_id } of runs) {
    const mine = byRun.get(run_id) ?? [];
    const begun = new Map<number, number>();
    let restarts = 0;
    for (const [index, { event, step, pid }] of mine.entries()) {
      const before = mine[index - 1];
      if (event === "end") {
        const isOwn = before?.event === "begin" && before.pid === pid && before.step === step;
        assert.ok(
          isOwn,
          `run ${run_id} ran twice at once: process ${pid} ended step ${step} after ${JSON.stringify(before)}`,
        );
        continue;
      }
      begun.set(step, (begun.get(step) ?? 0) + 1);
      const goesOn =
        before === undefined ? step === 1 : before.event === "end" && before.pid === pid && before.step === step - 1;
      if (!goesOn) restarts += 1;
    }
    assert.equal(begun.size, total, `run ${run_id} has steps ${[...begun.keys()]}`);
    for (const [step, times] of begun) {
      assert.ok(times <= 1 + restarts, `run ${run_id}: step ${step} begun ${times} times with ${restarts} restarts`);
      counts.repeated += times - 1;
      counts.mostRepeated = Math.max(counts.mostRepeated, times - 1);
    }
    counts.restarts += restarts;
  }
  return counts;
}
