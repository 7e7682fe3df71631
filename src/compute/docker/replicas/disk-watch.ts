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
  const [layers, volumes] = [new Unmeasured(), new Unmeasured()];
  for (let round = 1; ; round++) {
    const began = performance.now();
    try {
      if (!options.isLayerLimited()) await checkLayers(options, layers);
      if (round % roundsPerVolumeCheck === 0) await checkVolumes(options, volumes);
    } catch (error) {
      if (!signal.aborted) logger.warn({ error: describeError(error) }, "measuring the disk use of replicas failed");
    }
    const pauseMs = Math.max(intervalMs, (performance.now() - began) * pauseFactor);
    const isOver = await sleep(pauseMs, false, { signal, ref: false }).catch(() => true);
    if (isOver) return;
  }
}

/**
 * Measures sizes only. The engine also lists the files of a container (`changes`), but keeps all their paths in memory for that: 150,000
 * names of one empty file took 4 GB of the engine's memory, which no limit of the replica counts.
 */
async function checkLayers(options: DiskWatchOptions, unmeasured: Unmeasured): Promise<void> {
  const { engine, signal, limitMib, list } = options;
  for (const replica of list()) {
    const path = `/containers/${replica.containerId}/json`;
    const query = { size: true };
    const found = await engine.callUnless<{ SizeRw?: number }>([404], "GET", path, {
      ...{ query, signal, timeoutMs: measureTimeoutMs },
    });
    const bytes = found?.SizeRw ?? 0;
    if (unmeasured.isFailing(replica, bytes)) continue;
    const usedMib = Math.ceil(bytes / mib);
    if (usedMib > limitMib) replica.kill(exceeded(`wrote ${usedMib} MiB of files into its container`, limitMib));
  }
}

/** Measures the volume of a replica's state and those that its image declares: together they have one limit. */
async function checkVolumes(
  { engine, signal, limitMib, list }: DiskWatchOptions,
  unmeasured: Unmeasured,
): Promise<void> {
  const measured: { volumes: MountedVolume[]; replica: MeasuredReplica }[] = [];
  for (const replica of list()) {
    const path = `/containers/${replica.containerId}/json`;
    const found = await engine.callUnless<{ Mounts?: Parameters<typeof volumesOf>[0] }>([404], "GET", path, { signal });
    const volumes = volumesOf(found?.Mounts);
    if (volumes.length > 0) measured.push({ volumes, replica });
  }
  if (measured.length === 0) return;
  const sizes = await volumeSizes(engine, signal);
  for (const { volumes, replica } of measured) {
    const bytes = volumes.map(({ name }) => sizes.get(name) ?? 0);
    if (unmeasured.isFailing(replica, Math.min(...bytes))) continue;
    const usedMib = Math.ceil(bytes.reduce((sum, size) => sum + size, 0) / mib);
    if (usedMib <= limitMib) continue;
    const targets = volumes.map(({ target }) => target).toSorted();
    replica.kill(exceeded(`keeps ${usedMib} MiB in ${targets.slice(0, targetsShownMax).join(" and ")}`, limitMib));
  }
}

/**
 * Replicas whose files the engine could not measure. It cannot measure files at paths of more than 4,096 characters, which a
 * program makes directory by directory, nor a container while it ends. Otherwise such files would have no limit.
 */
class Unmeasured {
  readonly #once = new Set<string>();

  /** Returns whether a measure is -1, and kills the replica when it was in the round before, too. */
  isFailing({ replicaId, kill }: MeasuredReplica, measure: number): boolean {
    if (measure >= 0) {
      this.#once.delete(replicaId);
      return false;
    }
    if (this.#once.has(replicaId)) kill(outOfDisk("made files whose paths are too long for its disk limit"));
    this.#once.add(replicaId);
    return true;
  }
}

const targetsShownMax = 3;

const exceeded = (what: string, limitMib: number): Verdict =>
  outOfDisk(`${what}, more than its disk limit of ${limitMib} MiB`);

const outOfDisk = (what: string): Verdict => ({
  reason: "OutOfDisk",
  message: `The agent server was killed because it ${what}. Write less, or ask an operator to raise PIERHEAD_DOCKER_DISK_MIB.`,
});
