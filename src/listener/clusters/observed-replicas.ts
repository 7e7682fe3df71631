import type { ReplicaReport } from "../../contract/listeners/assignment.ts";

/** Replicas of one deployment in a cluster as they were last looked at, and how often they were restarted since the first look. */
export class ObservedReplicas {
  /** Restarts by replica; null: none was looked at yet. */
  #counts: Map<string, number> | null = null;
  #ids: string[] = [];
  #restarts = 0;

  /** Of those that have not ended. */
  get ids(): string[] {
    return this.#ids;
  }

  get restarts(): number {
    return this.#restarts;
  }

  update(replicas: Pick<ReplicaReport, "replica_id" | "phase" | "restarts">[]): void {
    const before = this.#counts;
    this.#counts = new Map(replicas.map(({ replica_id, restarts }) => [replica_id, restarts]));
    this.#ids = replicas.filter(({ phase }) => phase !== "exited").map(({ replica_id }) => replica_id);
    if (before === null) return;
    for (const [id, restarts] of this.#counts) this.#restarts += Math.max(0, restarts - (before.get(id) ?? 0));
  }
}
