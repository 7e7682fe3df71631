import { holdsSlot } from "../../domain/revision-status.ts";
import { inSpan, type Traces } from "../../telemetry/traces.ts";
import type { Outcome } from "../plan/outcome.ts";
import type { DeploymentState } from "../plan/state.ts";
import { withoutDetail } from "../steps/step-span.ts";

/**
 * Runs a pass in a span. It belongs to the trace of the revision in progress, or else of the newest one that waits; a
 * pass without such a revision has no span.
 */
export function inPassSpan(
  traces: Traces | null,
  { id, tenantId, unsettled }: DeploymentState,
  act: () => Promise<Outcome>,
): Promise<Outcome> {
  const revision = unsettled.find(({ status }) => holdsSlot(status)) ?? unsettled.at(-1);
  if (traces === null || revision === undefined || revision.traceparent === null) return act();
  const ids = { deployment_id: id, revision_id: revision.id, workspace_id: tenantId };
  return inSpan(traces.begin("reconcile.pass", revision.traceparent, ids), async (span) => {
    const outcome = await act();
    span.set({ outcome: outcome.kind, because: withoutDetail(outcome.because) });
    return outcome;
  });
}
