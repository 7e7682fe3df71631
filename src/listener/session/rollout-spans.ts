import type { Assignment } from "../../contract/listeners/assignment.ts";
import { inSpan, outsideSpans, type Span, type Traces } from "../../telemetry/traces.ts";
import type { Snapshot } from "./snapshot.ts";

interface Rollout {
  revisionId: string;
  /** Generation of the assignment that began it, or of a later one with the same target. */
  generation: number;
  span: Span;
}

/**
 * The trace spans of the rollouts in progress. A rollout begins with an assignment that has a `traceparent` and a target that
 * does not serve yet. It ends when the control plane has stored the report of its outcome.
 */
export class RolloutSpans {
  readonly #traces: Traces | null;
  readonly #rollouts = new Map<string, Rollout>();

  constructor(traces: Traces | null = null) {
    this.#traces = traces;
  }

  /** Begins and ends spans by the new assignments. Returns its argument. */
  assigned(assignments: Assignment[]): Assignment[] {
    for (const assignment of this.#traces === null ? [] : assignments) this.#assigned(assignment);
    return assignments;
  }

  #assigned({ deployment_id, tenant_id, generation, target, serving, traceparent }: Assignment): void {
    const known = this.#rollouts.get(deployment_id);
    // An assignment that is listed again begins no new span, not even after its rollout has ended.
    if (known !== undefined && known.generation >= generation) return;
    const wanted = target === null || target.revision_id === serving?.revision_id ? null : target.revision_id;
    if (known !== undefined && known.revisionId === wanted) {
      known.generation = generation;
      return;
    }
    this.#end(known, "superseded");
    this.#rollouts.delete(deployment_id);
    if (wanted === null || traceparent === undefined) return;
    const ids = { deployment_id, revision_id: wanted, workspace_id: tenant_id };
    const span = this.#traces?.begin("listener.rollout", traceparent, ids);
    if (span !== undefined) this.#rollouts.set(deployment_id, { revisionId: wanted, generation, span });
  }

  /** Runs `act` as a step of the rollout of this revision, if one is in progress. */
  step<T>(
    name: string,
    { deploymentId, revisionId, replicaId }: { deploymentId: string; revisionId: string; replicaId?: string },
    act: (span?: Span) => Promise<T>,
  ): Promise<T> {
    const rollout = this.#rollouts.get(deploymentId);
    if (rollout === undefined || rollout.revisionId !== revisionId || rollout.span.hasEnded) return outsideSpans(act);
    const ids = { deployment_id: deploymentId, revision_id: revisionId, replica_id: replicaId };
    return inSpan(rollout.span.begin(name, ids), act);
  }

  /** Runs `send` as a step of each rollout that the snapshots belong to. The call carries the context of the first one. */
  reporting<T>(snapshots: readonly Snapshot[], send: () => Promise<T>): Promise<T> {
    const spans = snapshots.flatMap((snapshot) => {
      const { deployment_id, target_phase: phase } = snapshot;
      const rollout = this.#of(snapshot);
      return rollout === undefined ? [] : [rollout.span.begin("listener.report", { deployment_id, phase })];
    });
    if (spans.length === 0) return outsideSpans(send);
    return spans.reduce<() => Promise<T>>((act, span) => () => inSpan(span, act), send)();
  }

  /** Ends the rollout if the stored snapshot contains its outcome. */
  stored(snapshot: Snapshot): void {
    const rollout = this.#of(snapshot);
    const { target_phase: phase, cause } = snapshot;
    if (rollout === undefined || (phase !== "ready" && phase !== "failed")) return;
    if (phase === "failed") rollout.span.fail(cause?.reason ?? "Failed");
    this.#end(rollout, phase);
  }

  /** Ends all rollouts because another instance leads. */
  clear(): void {
    for (const rollout of this.#rollouts.values()) this.#end(rollout, "handed over");
    this.#rollouts.clear();
  }

  #of({ deployment_id, target_revision_id }: Snapshot): Rollout | undefined {
    const rollout = this.#rollouts.get(deployment_id);
    return rollout?.revisionId === target_revision_id && !rollout.span.hasEnded ? rollout : undefined;
  }

  #end(rollout: Rollout | undefined, outcome: string): void {
    if (rollout === undefined || rollout.span.hasEnded) return;
    rollout.span.set({ outcome });
    rollout.span.end();
  }
}
