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

export async function expectComplete(replica: Replica, runs: Started[], total: number): Promise<void> {
  for (const run of runs) {
    const missing = await whyIncomplete(replica, run, total);
    assert.equal(missing, undefined, `run ${run.run_id}: ${missing}`);
  }
}

/** Returns how a run differs from one that has done all its steps; undefined if it does not. */
export async function whyIncomplete(
  { client }: Replica,
  { thread_id, run_id }: Started,
  total: number,
): Promise<string | undefined> {
  const get = () => client.runs.get(thread_id, run_id);
  const isOpen = (run: Loose) => run.status === "pending" || run.status === "running";
  const run = await eventually(get, (found) => !isOpen(found), { timeoutMs: 60_000, what: "an end" }).catch(get);
  const thread = await client.threads.get(thread_id);
  // Aegra has the error in the run, LangGraph.js in the thread.
  if (run.status !== "success") return `${run.status}: ${run.error_message ?? JSON.stringify(thread.error)}`;
  const { values } = await client.threads.getState(thread_id);
  const isWhole =
    values.done?.length === total && values.done.every((step: number, index: number) => step === index + 1);
  if (!isWhole) return `success with the steps ${JSON.stringify(values.done)}`;
  return thread.status === "idle" ? undefined : `success on a thread that is ${thread.status}`;
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
