/** What the replicas of a deployment have to do, all together. */
export interface Load {
  /** Those that were looked at: ready, and carrying the traffic. */
  replicas: number;
  /** Part of their limits that they use on average, 1 being all of it; null: not known. */
  cpu: number | null;
  memory: number | null;
  /** Requests and streams under way, or runs that wait or are worked on: the larger number. */
  pending: number;
}

/** How many replicas a deployment runs on, and since when fewer would do. */
export interface Scale {
  replicas: number;
  /** The most that were needed since then, always fewer than there are; null: all are needed. */
  lower: { sinceMs: number; replicas: number } | null;
}

export interface ScaleBounds {
  min: number;
  max: number;
  /** Fewer replicas only after they would have done for so long. */
  holdMs: number;
}

/** Target of CPU and of memory, of the limit (contract 6.2). */
export const utilisationTarget = 0.75;

/**
 * So near to the target nothing changes, as in the autoscaler of Kubernetes: a server whose memory stands at 76 % however
 * many there are would otherwise be doubled until the bound.
 */
export const utilisationTolerance = 0.1;

/** What one replica works on at a time: its job slots (`N_JOBS_PER_WORKER`, contract 6.2). */
export const pendingPerReplica = 10;

/** How many replicas a load needs: the most that any measure asks for (contract 6.2). */
export function neededReplicas({ replicas, cpu, memory, pending }: Load): number {
  const byUse = [cpu, memory].map((use) => {
    const ratio = (use ?? 0) / utilisationTarget;
    if (use !== null && Math.abs(ratio - 1) <= utilisationTolerance) return replicas;
    return wholeAbove(replicas * ratio);
  });
  return Math.max(0, ...byUse, wholeAbove(pending / pendingPerReplica));
}

/** Up at once; down when fewer have been enough for `holdMs`, to the most that were needed in that time (contract 6.2). */
export function nextScale(scale: Scale, needed: number, bounds: ScaleBounds, nowMs: number): Scale {
  const wanted = Math.max(bounds.min, Math.min(bounds.max, needed));
  if (wanted >= scale.replicas) return { replicas: wanted, lower: null };
  const { sinceMs, replicas } = scale.lower ?? { sinceMs: nowMs, replicas: 0 };
  const most = Math.max(replicas, wanted);
  if (nowMs - sinceMs >= bounds.holdMs) return { replicas: most, lower: null };
  return { replicas: scale.replicas, lower: { sinceMs, replicas: most } };
}

/** Rounds up, but not for what only a division of floats put above a whole number. */
const wholeAbove = (value: number) => Math.ceil(value - 1e-9);
