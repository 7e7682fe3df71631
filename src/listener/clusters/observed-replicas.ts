import type { ReplicaExitReport, ReplicaReport } from "../../contract/listeners/assignment.ts";

/** The last observed replicas of one deployment in a cluster, and the restarts since the first observation. */
export class ObservedReplicas {
  /** Restarts by replica. Null: not observed yet. */
  #counts: Map<string, number> | null = null;
  #ids: string[] = [];
  #restarts = 0;
  #crashStreak = 0;
  #lastExit: ReplicaExitReport | null = null;
  #rolloutExitAt = "";

  /** Replicas that have not exited. */
  get ids(): string[] {
    return this.#ids;
  }

  get restarts(): number {
    return this.#restarts;
  }

  /** Exits in a row, each soon after a start. */
  get crashStreak(): number {
    return this.#crashStreak;
  }

  /** The newest exit, also of a pod that is gone. */
  get lastExit(): ReplicaExitReport | null {
    return this.#lastExit;
  }

  /** Exits during a rollout belong to the rollout. They do not count when the revision serves later. */
  updateLastExit(exit: ReplicaExitReport | undefined, servingId: string | null): void {
    if (exit === undefined || exit.at <= this.#rolloutExitAt) return;
    if (exit.revision_id !== servingId) this.#rolloutExitAt = exit.at;
    else if (this.#lastExit === null || exit.at > this.#lastExit.at) this.#lastExit = exit;
  }

  /** Sets the observed streak; null keeps the last one, because a replica has just started again. */
  updateStreak(streak: number | null): void {
    if (streak !== null) this.#crashStreak = streak;
  }

  update(replicas: Pick<ReplicaReport, "replica_id" | "phase" | "restarts">[]): void {
    const before = this.#counts;
    this.#counts = new Map(replicas.map(({ replica_id, restarts }) => [replica_id, restarts]));
    this.#ids = replicas.filter(({ phase }) => phase !== "exited").map(({ replica_id }) => replica_id);
    if (before === null) return;
    for (const [id, restarts] of this.#counts) this.#restarts += Math.max(0, restarts - (before.get(id) ?? 0));
  }
}
