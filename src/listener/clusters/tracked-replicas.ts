import type { ReplicaReport } from "../../contract/listeners/assignment.ts";
import type { LogShipper } from "../shipping/log-shipper.ts";

/** Ships the logs of replicas that the engine creates and removes, each for as long as it is observed. */
export class TrackedReplicas {
  readonly #shipper: Pick<LogShipper, "track" | "forget"> | null;
  readonly #byDeployment = new Map<string, Set<string>>();

  constructor(shipper: Pick<LogShipper, "track" | "forget"> | null) {
    this.#shipper = shipper;
  }

  /** Sets the replicas that a deployment has now. */
  update(deploymentId: string, replicas: Pick<ReplicaReport, "replica_id" | "revision_id">[]): void {
    const tracked = this.#byDeployment.get(deploymentId) ?? new Set();
    const there = new Set(replicas.map(({ replica_id }) => replica_id));
    for (const replicaId of tracked) {
      if (there.has(replicaId)) continue;
      this.#shipper?.forget(replicaId);
      tracked.delete(replicaId);
    }
    for (const { replica_id: replicaId, revision_id: revisionId } of replicas) {
      this.#shipper?.track({ replicaId, deploymentId, revisionId });
      tracked.add(replicaId);
    }
    if (tracked.size > 0) this.#byDeployment.set(deploymentId, tracked);
    else this.#byDeployment.delete(deploymentId);
  }

  /** Forgets all other deployments, because they are gone. */
  keepOnly(deploymentIds: { has(deploymentId: string): boolean }): void {
    for (const deploymentId of this.#byDeployment.keys())
      if (!deploymentIds.has(deploymentId)) this.update(deploymentId, []);
  }
}
