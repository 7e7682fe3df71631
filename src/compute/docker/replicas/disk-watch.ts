import { setTimeout as sleep } from "node:timers/promises";
import { describeError, type Logger } from "../../../telemetry/log.ts";
import type { Verdict } from "../../exit-cause.ts";
import type { Engine } from "../engine/engine.ts";
import { labels, stateMount } from "./container.ts";

/** A running replica that the watch measures. */
export interface MeasuredReplica {
  replicaId: string;
  containerId: string;
  /** Name of the volume of its state, which exists only for a server that keeps state. */
  stateVolume: string;
  kill(verdict: Verdict): void;
}

export interface DiskWatchOptions {
  engine: Engine;
  installationId: string;
  logger: Logger;
  signal: AbortSignal;
  limitMib: number;
  /** Pause between two measurements. */
  intervalMs: number;
  /** True: the engine limits containers itself, so that only state volumes are measured. */
  isLayerLimited(): boolean;
  list(): MeasuredReplica[];
}

const mib = 1024 * 1024;

/** The engine walks over the files that it measures. At most a twentieth of the time is spent on that. */
const pauseFactor = 20;

/** The engine measures all its volumes at once, and older ones also all images, so it is asked less often. */
const roundsPerVolumeCheck = 6;

const volumesTimeoutMs = 600_000;

/**
 * Kills replicas that have written more than the disk limit, because most engines do not limit it. A replica can exceed the
 * limit by what it writes in one interval. Runs until the signal aborts.
 */
export async function watchDisk(options: DiskWatchOptions): Promise<void> {
  const { signal, logger, intervalMs } = options;
  for (let round = 1; ; round++) {
    const began = performance.now();
    try {
      if (!options.isLayerLimited()) await checkLayers(options);
      if (round % roundsPerVolumeCheck === 0) await checkVolumes(options);
    } catch (error) {
      if (!signal.aborted) logger.warn({ error: describeError(error) }, "measuring the disk use of replicas failed");
    }
    const pauseMs = Math.max(intervalMs, (performance.now() - began) * pauseFactor);
    const isOver = await sleep(pauseMs, false, { signal, ref: false }).catch(() => true);
    if (isOver) return;
  }
}

async function checkLayers({ engine, signal, limitMib, list }: DiskWatchOptions): Promise<void> {
  for (const { containerId, kill } of list()) {
    const path = `/containers/${containerId}/json`;
    const query = { size: true };
    const found = await engine.callUnless<{ SizeRw?: number }>([404], "GET", path, {
      ...{ query, signal, timeoutMs: volumesTimeoutMs },
    });
    const usedMib = Math.ceil((found?.SizeRw ?? 0) / mib);
    if (usedMib > limitMib) kill(exceeded(`wrote ${usedMib} MiB of files into its container`, limitMib));
  }
}

interface Volumes {
  Volumes: { Name: string; UsageData?: { Size: number } }[] | null;
}

async function checkVolumes({ engine, installationId, signal, limitMib, list }: DiskWatchOptions): Promise<void> {
  const filters = { label: [`${labels.installation}=${installationId}`] };
  const existing = await engine.call<Volumes>("GET", "/volumes", { query: { filters }, signal });
  const names = new Set((existing.Volumes ?? []).map(({ Name }) => Name));
  const withState = list().filter(({ stateVolume }) => names.has(stateVolume));
  if (withState.length === 0) return;
  const { Volumes } = await engine.call<Volumes>("GET", "/system/df", {
    ...{ query: { type: "volume" }, signal, timeoutMs: volumesTimeoutMs },
  });
  const sizes = new Map((Volumes ?? []).map(({ Name, UsageData }) => [Name, UsageData?.Size ?? 0]));
  for (const { stateVolume, kill } of withState) {
    const usedMib = Math.ceil((sizes.get(stateVolume) ?? 0) / mib);
    if (usedMib > limitMib) kill(exceeded(`keeps ${usedMib} MiB in ${stateMount}`, limitMib));
  }
}

const exceeded = (what: string, limitMib: number): Verdict => ({
  reason: "OutOfDisk",
  message: `The agent server was killed because it ${what}, more than its disk limit of ${limitMib} MiB. Write less, or ask an operator to raise PIERHEAD_DOCKER_DISK_MIB.`,
});
