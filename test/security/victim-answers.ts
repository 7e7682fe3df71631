import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { TwoWorkspaces } from "./two-workspaces.ts";

const requests = 20;
const pauseMs = 100;
const medianMaxMs = 150;

/** Tests that the other workspace gets its answers soon while an attack runs. @param attack runs until its signal aborts */
export async function victimIsAnsweredBeside(
  { victim }: TwoWorkspaces,
  attack: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const waitsMs: number[] = [];
  const measure = async () => {
    for (let at = 0; at < requests; at += 1) {
      const beganAt = performance.now();
      await victim.api.listDeployments({});
      waitsMs.push(performance.now() - beganAt);
      await sleep(pauseMs);
    }
  };
  await victim.api.listDeployments({});
  const stop = new AbortController();
  await Promise.all([attack(stop.signal), measure().finally(() => stop.abort())]);
  const median = waitsMs.toSorted((a, b) => a - b)[requests / 2] ?? 0;
  assert.ok(median < medianMaxMs, `the median of ${waitsMs.map(Math.round).join(", ")} ms`);
}

/** Sends requests on 16 connections without a pause. */
export const withoutPause = (ask: (signal: AbortSignal) => Promise<unknown>) => (signal: AbortSignal) =>
  Promise.all(
    Array.from({ length: 16 }, async () => {
      while (!signal.aborted) await ask(signal).catch((error: unknown) => assert.ok(signal.aborted, String(error)));
    }),
  );
