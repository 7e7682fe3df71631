import type { ReplicaLogLine } from "../../contract/listeners/assignment.ts";

/** Log lines of one workspace: a token bucket with one token per line. */
interface Rate {
  tokens: number;
  filledAtMs: number;
  /** Lines dropped since the last stored one, by deployment, and the first of each. */
  dropped: Map<string, { count: number; first: ReplicaLogLine }>;
}

/** Burst: this many seconds of the rate, for example the start of many replicas. */
const burstS = 5;

/** Reports the drops of a flood once and not hundreds of times: no line is stored before this part of a second is free. */
const resumeS = 0.5;

/** Workspaces to remember; a forgotten one starts with a full bucket. */
const workspacesMax = 10_000;

/**
 * Limits the log lines that each workspace stores per second, however many deployments, replicas and listeners it has. The
 * first line stored after a flood is a notice with the number of dropped lines.
 */
export class LogRates {
  readonly #linesPerS: number;
  readonly #now: () => number;
  readonly #byWorkspace = new Map<string, Rate>();

  constructor(linesPerS: number, now: () => number = () => performance.now()) {
    this.#linesPerS = linesPerS;
    this.#now = now;
  }

  /** Returns the lines of one workspace to store, in order. */
  admit(workspaceId: string, lines: ReplicaLogLine[]): ReplicaLogLine[] {
    const rate = this.#rateOf(workspaceId);
    const isFlooding = rate.dropped.size > 0 && rate.tokens < this.#linesPerS * resumeS;
    const allowed = isFlooding ? 0 : Math.floor(rate.tokens);
    const stored = lines.slice(0, allowed);
    rate.tokens -= stored.length;
    const notices = stored.length > 0 ? this.#takeNotices(rate) : [];
    for (const line of lines.slice(allowed)) {
      const dropped = rate.dropped.get(line.deployment_id);
      if (dropped === undefined) rate.dropped.set(line.deployment_id, { count: 1, first: line });
      else dropped.count += 1;
    }
    return [...notices, ...stored];
  }

  #rateOf(workspaceId: string): Rate {
    const burst = this.#linesPerS * burstS;
    const nowMs = this.#now();
    const known = this.#byWorkspace.get(workspaceId);
    const rate = known ?? { tokens: burst, filledAtMs: nowMs, dropped: new Map() };
    rate.tokens = Math.min(burst, rate.tokens + (Math.max(0, nowMs - rate.filledAtMs) / 1_000) * this.#linesPerS);
    rate.filledAtMs = nowMs;
    // The map's order is that of the last use, so the first entry is the oldest.
    this.#byWorkspace.delete(workspaceId);
    this.#byWorkspace.set(workspaceId, rate);
    const [oldest] = this.#byWorkspace.keys();
    if (this.#byWorkspace.size > workspacesMax && oldest !== undefined) this.#byWorkspace.delete(oldest);
    return rate;
  }

  #takeNotices(rate: Rate): ReplicaLogLine[] {
    const notices = Array.from(rate.dropped.values(), ({ count, first }) => ({
      ...first,
      key: `${first.key}:dropped-here`,
      level: "WARNING",
      message: `${count} lines dropped: the agents of this workspace write more than ${this.#linesPerS} lines per second.`,
    }));
    rate.dropped.clear();
    return notices;
  }
}
