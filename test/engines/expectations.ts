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
    assert.equal((await client.runs.get(thread_id, run_id)).status, "success");
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
