/** The total load of a deployment's replicas. */
export interface Load {
  /** Measured replicas: ready, and serving the traffic. */
  replicas: number;
  /** Average use as a share of the limit, 0 to 1 and above; null when unknown. */
  cpu: number | null;
  memory: number | null;
  /** Open requests and streams, or runs that are queued or in progress: the larger number. */
  pending: number;
}

/** The number of replicas, and since when fewer have been enough. */
export interface Scale {
  replicas: number;
  /** Highest need since `sinceMs`, always below `replicas`; null while all replicas are needed. */
  lower: { sinceMs: number; replicas: number } | null;
}

export interface ScaleBounds {
  min: number;
  max: number;
  /** How long fewer replicas must have been enough before the deployment scales down. */
  holdMs: number;
}

/** Target use of CPU and of memory as a share of the limit (contract 6.2). */
const utilizationTarget = 0.75;

/**
 * Within this tolerance of the target the scale does not change, as in the Kubernetes autoscaler. Otherwise a server that uses 76 % of its memory
 * with any number of replicas would be doubled up to the maximum.
 */
const utilizationTolerance = 0.1;

/** Tasks that one replica works on at a time: its job slots (`N_JOBS_PER_WORKER`, contract 6.2). */
const pendingPerReplica = 10;

/** Returns the replicas that a load needs: the maximum over all measures (contract 6.2). */
export function neededReplicas({ replicas, cpu, memory, pending }: Load): number {
  const byUse = [cpu, memory].map((use) => {
    const ratio = (use ?? 0) / utilizationTarget;
    if (use !== null && Math.abs(ratio - 1) <= utilizationTolerance) return replicas;
    return wholeAbove(replicas * ratio);
  });
  return Math.max(0, ...byUse, wholeAbove(pending / pendingPerReplica));
}

/** Scales up at once. Scales down when fewer were enough for `holdMs`, to the most that were needed in that time (contract 6.2). */
export function nextScale(scale: Scale, needed: number, bounds: ScaleBounds, nowMs: number): Scale {
  const wanted = Math.max(bounds.min, Math.min(bounds.max, needed));
  if (wanted >= scale.replicas) return { replicas: wanted, lower: null };
  const { sinceMs, replicas } = scale.lower ?? { sinceMs: nowMs, replicas: 0 };
  const most = Math.max(replicas, wanted);
  if (nowMs - sinceMs >= bounds.holdMs) return { replicas: most, lower: null };
  return { replicas: scale.replicas, lower: { sinceMs, replicas: most } };
}

/** Rounds up, except for an excess that comes only from floating-point division. */
const wholeAbove = (value: number) => Math.ceil(value - 1e-9);
