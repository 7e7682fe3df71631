import { setTimeout as sleep } from "node:timers/promises";
import { describeError, type Logger } from "../../../telemetry/log.ts";
import type { Verdict } from "../../exit-cause.ts";
import type { Engine } from "../engine/engine.ts";
import { type MountedVolume, volumeSizes, volumesOf } from "./volumes.ts";

/** A running replica that the watch measures. */
export interface MeasuredReplica {
  replicaId: string;
  containerId: string;
  kill(verdict: Verdict): void;
}

export interface DiskWatchOptions {
  engine: Engine;
  logger: Logger;
  signal: AbortSignal;
  limitMib: number;
  /** Pause between two measurements. */
  intervalMs: number;
  /** True: the engine limits containers itself, so that only volumes are measured. */
  isLayerLimited(): boolean;
  list(): MeasuredReplica[];
}

const mib = 1024 * 1024;

/** The engine walks over the files that it measures. At most a twentieth of the time is spent on that. */
const pauseFactor = 20;

/** The engine measures all its volumes at once, and older ones also all images, so it is asked less often. */
const roundsPerVolumeCheck = 6;

const measureTimeoutMs = 600_000;

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
      ...{ query, signal, timeoutMs: measureTimeoutMs },
    });
    const usedMib = Math.ceil((found?.SizeRw ?? 0) / mib);
    if (usedMib > limitMib) kill(exceeded(`wrote ${usedMib} MiB of files into its container`, limitMib));
  }
}

/** Measures the volume of a replica's state and those that its image declares: together they have one limit. */
async function checkVolumes({ engine, signal, limitMib, list }: DiskWatchOptions): Promise<void> {
  const measured: { volumes: MountedVolume[]; kill: MeasuredReplica["kill"] }[] = [];
  for (const { containerId, kill } of list()) {
    const path = `/containers/${containerId}/json`;
    const found = await engine.callUnless<{ Mounts?: Parameters<typeof volumesOf>[0] }>([404], "GET", path, { signal });
    const volumes = volumesOf(found?.Mounts);
    if (volumes.length > 0) measured.push({ volumes, kill });
  }
  if (measured.length === 0) return;
  const sizes = await volumeSizes(engine, signal);
  for (const { volumes, kill } of measured) {
    const usedMib = Math.ceil(volumes.reduce((sum, { name }) => sum + (sizes.get(name) ?? 0), 0) / mib);
    if (usedMib <= limitMib) continue;
    const targets = volumes.map(({ target }) => target).toSorted();
    kill(exceeded(`keeps ${usedMib} MiB in ${targets.slice(0, targetsShownMax).join(" and ")}`, limitMib));
  }
}

const targetsShownMax = 3;

const exceeded = (what: string, limitMib: number): Verdict => ({
  reason: "OutOfDisk",
  message: `The agent server was killed because it ${what}, more than its disk limit of ${limitMib} MiB. Write less, or ask an operator to raise PIERHEAD_DOCKER_DISK_MIB.`,
});
